"""Short calibrations of a real job: how fast it is in each way to run it, and what it draws."""
