"""Texts for people: tables, durations and times, curves drawn with characters."""
