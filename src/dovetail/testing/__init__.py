"""For tests of Dovetail and of what extends it: builders, worlds made by chance, and the contract
that every policy keeps.

A policy of your own is tested in one line: `check_policy(lambda: MyPolicy())`.
"""

from dovetail.testing.audit import Audit
from dovetail.testing.contract import (
    AskedTwice,
    check_ends_and_laws,
    check_policy,
    check_purity,
    check_replay,
    check_restart,
    check_same_again,
    check_service_adds_up,
    check_snapshot,
)
from dovetail.testing.fingerprint import fingerprint
from dovetail.testing.runs import (
    Ends,
    MakePolicy,
    Paused,
    PolicyRun,
    replay,
    run_trace,
    run_with_restart,
    run_world,
    told_to,
)
from dovetail.testing.wild import wild_world
from dovetail.testing.worlds import (
    World,
    arrival,
    crowded_world,
    job,
    knowledge,
    nodes,
    over_nodes,
    placement,
    policy_for,
    random_world,
    with_elastic_jobs,
    world_of_options,
)

__all__ = [
    "AskedTwice",
    "Audit",
    "Ends",
    "MakePolicy",
    "Paused",
    "PolicyRun",
    "World",
    "arrival",
    "check_ends_and_laws",
    "check_policy",
    "check_purity",
    "check_replay",
    "check_restart",
    "check_same_again",
    "check_service_adds_up",
    "check_snapshot",
    "crowded_world",
    "fingerprint",
    "job",
    "knowledge",
    "nodes",
    "over_nodes",
    "placement",
    "policy_for",
    "random_world",
    "replay",
    "run_trace",
    "run_with_restart",
    "run_world",
    "told_to",
    "wild_world",
    "with_elastic_jobs",
    "world_of_options",
]
