"""Lyra: idle GPUs of services are lent to training and taken back."""
