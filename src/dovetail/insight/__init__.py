"""Measurements of what drives scheduling on a given cluster: pure functions over a trace."""
