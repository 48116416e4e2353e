"""How good could any policy be? Lower bounds, and schedules by a solver that knows the future."""
