"""Measures what drives scheduling on a given cluster: one command, one report."""

from __future__ import annotations

from dovetail.analysis.driver import Analysis, analyze

__all__ = ["Analysis", "analyze"]
