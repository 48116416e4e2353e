"""The daemon: the one process that decides on a machine, and the HTTP API that leads to it."""
