"""Traces drawn at random."""
