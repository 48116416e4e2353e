"""ANDREAS (Filippini et al., FiCloud 2021): which jobs run now, where and on how many GPUs, so that
energy and lateness together cost least.

`problem` is one decision as a value, `filling` and the methods beside it are pure functions from a
problem to an assignment, `drafting` converts a view to a problem and an assignment to actions, and
`searching` and `baselines` are the policies.
"""
