"""Simulations: one trace, one cluster, some policies; put together, run, compared."""
