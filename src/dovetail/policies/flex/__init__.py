"""`flex`: how many GPUs of which kind each job gets, decided for all jobs together from beliefs."""
