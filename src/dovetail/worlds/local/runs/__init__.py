"""One launch of a job: its processes, how they start, give way and end."""
