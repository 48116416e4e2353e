"""What a Slurm script finds in its PATH."""
