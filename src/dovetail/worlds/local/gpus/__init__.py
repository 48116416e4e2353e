"""The GPUs of this machine: who computes on them, suspending, power limits and energy."""
