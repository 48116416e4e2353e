"""What really happens: workloads, speeds and failures. Only the simulator may read this truth."""
