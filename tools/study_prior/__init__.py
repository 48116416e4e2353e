"""Fits the prior of the default study rule, `src/dovetail/tune/prior.json` (docs/decisions/0015).

    python -m tools.study_prior --hold-out even --out build/prior.json

The rule is replayed on recorded curves with the prior so far; what it saw when it had a choice, and who
reached the target in the end, is what the next prior is fitted to.
"""
