"""The command line and the reports: the only place that wires the parts together."""
