"""One machine: real processes on its GPUs or processor slots."""
