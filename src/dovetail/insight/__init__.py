"""What drives scheduling on a given cluster, measured: pure functions over a trace."""
