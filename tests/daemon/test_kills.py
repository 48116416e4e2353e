"""The daemon is killed with SIGKILL again and again; the jobs do not notice, and nothing is lost.

`make storm` is the long form: a thousand kills.
"""

from __future__ import annotations

import os

from daemon_process import in_memory
from storm import Storm

KILLS = int(os.environ.get("DOVETAIL_STORM_KILLS", "30"))
SEED = int(os.environ.get("DOVETAIL_STORM_SEED", "11"))


def test_a_storm_of_kills_loses_nothing_that_was_answered_and_runs_nothing_twice() -> None:
    with in_memory() as folder:
        storm = Storm(folder, SEED)
        try:
            storm.blow(KILLS, print)
            storm.finish()
        finally:
            storm.daemon.stop()
            storm.daemon.end_all()
        storm.check()
        print(storm.known.count, "answers, all of them kept")
        assert storm.known.count > storm.kills
