"""Backfilling: short jobs use the gaps before wide ones."""
