"""The sections of the page, one for each part of an analysis."""
