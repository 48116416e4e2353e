"""How many GPUs each job has: policies that give and take them while jobs run."""
