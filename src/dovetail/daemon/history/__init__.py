"""The past: rows of ended jobs, costs, and how long all of it is kept."""
