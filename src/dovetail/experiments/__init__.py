"""Simulations: a trace, a cluster and policies; put together, run, compared."""
