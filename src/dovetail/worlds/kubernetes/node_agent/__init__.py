"""The program on each node: it suspends and resumes containers of our pods, and reads their reports."""
