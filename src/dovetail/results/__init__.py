"""What a run leaves behind: outcomes of jobs and charges."""
