"""Worlds carry out decisions: the simulated one, this machine, Kubernetes."""
