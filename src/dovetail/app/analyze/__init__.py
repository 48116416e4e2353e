"""What drives scheduling on a given cluster: one command, one report."""

from __future__ import annotations

from dovetail.app.analyze.analysis import Analysis, analyze

__all__ = ["Analysis", "analyze"]
