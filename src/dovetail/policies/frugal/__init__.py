"""Our own policy for energy and lateness.

`deciding` is one decision as a pure function, of jobs as `draft` represents them on nodes as
`floor` represents them; `ladder` ranks the ways to run a job, `hurry` gives GPUs to jobs that need
them soon, `hours` finds cheap hours; `portfolio` compares the plan with
rivals by rehearsals (`rehearsal`), whose input `casting` makes; `policy` converts a view to a plan
and a plan to actions.
"""
