"""The results of a run: outcomes of jobs, and charges."""
