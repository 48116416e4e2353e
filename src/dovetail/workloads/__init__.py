"""Kinds of workload beside plain jobs. Each folder is one, and joins the state by `core.groups.Kind`."""
