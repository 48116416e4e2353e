"""Readers of traces: our own format and those of others."""
