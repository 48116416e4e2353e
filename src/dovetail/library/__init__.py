"""Dovetail from Python: simulations and their results, and a daemon that runs. See `dovetail`."""
