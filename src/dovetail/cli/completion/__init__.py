"""Completion in shells, and manual pages: both from the commands themselves."""
