"""Speaks to a daemon from Python and from the command line."""
