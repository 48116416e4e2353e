"""Studies: many trials of one thing, of which the best is wanted."""
