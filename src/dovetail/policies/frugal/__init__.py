"""Our own policy for energy and lateness.

`plan` is one decision as a pure function, of jobs as `draft` has them on nodes as `floor` has them;
`ladder` ranks the ways to run a job, `hurry` gives GPUs to those that need them soon, `seating` says
who sits where, `hours` when energy is cheap; `portfolio` has the plan and its rivals rehearsed
(`rehearsal`) as `casting` tells; `policy` leads from a view to a plan and back to actions.
"""
