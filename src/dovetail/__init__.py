"""Dovetail schedules deep-learning work on GPU clusters."""
