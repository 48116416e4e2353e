"""What has run: rows of ended jobs, costs, how long all of it is kept."""
