"""A browser's way to a daemon: a process of its user on the loopback, and what keeps others out."""
