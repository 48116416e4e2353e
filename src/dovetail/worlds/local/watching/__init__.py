"""Following a job: its reports, what it prints, its end."""
