"""Worlds that carry out decisions: so far the simulated one."""
