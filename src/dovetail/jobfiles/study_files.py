"""Study descriptions in YAML, read as those of jobs are: every scalar as the text that was written."""

from __future__ import annotations

from dovetail.jobfiles.study_model import StudySpec, read_study
from dovetail.jobfiles.yaml_files import located, text_of


def load_study(path: str) -> StudySpec:
    """The description in a file; `-` is standard input."""
    return parse_study(text_of(path), "standard input" if path == "-" else path)


def parse_study(text: str, source: str = "") -> StudySpec:
    """The description in a text; mistakes are told with their line in `source`."""
    given, lines = located(text, source or "YAML")
    return read_study(given, source, lines)
