"""Requests to the daemon and its answers, over its socket or the network."""
