"""A home as the version before the seam left it, killed in the middle, opens and goes on.

`golden/home-of-0.tar.gz` was recorded with that version's own code: three slots, nine submissions, then
`kill -9` of the daemon and of all that ran, as if the machine had lost its power.
"""

import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.core.model import Node
from dovetail.store import Store
from dovetail.worlds.local import making
from live_box import Box

RECORDED = Path(__file__).parents[1] / "golden" / "home-of-0.tar.gz"
NODE = Node("vm", 3, "cpu", cpus=2, memory_gb=23.540592193603516)  # as its journal has it


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    folder = tmp_path_factory.mktemp("before") / "home"
    with tarfile.open(RECORDED) as recorded:
        recorded.extractall(folder, filter="data")
    folder.chmod(0o700)
    _make_mine(folder / "dovetail.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "machine_nodes", lambda *_: [NODE])
        box = Box(folder, slots=None)
    yield box
    box.close()


def _make_mine(journal: Path) -> None:
    """It was root who submitted; the jobs run as whoever tests."""
    store = Store.open(journal)
    for job_id in store.specs():
        record = json.loads(store.spec(job_id) or "{}")
        if "uid" in record:
            store.put_spec(job_id, json.dumps({**record, "uid": os.getuid()}))
    store.commit()
    store.close()


def test_what_had_ended_is_still_told_with_its_log(here: Box) -> None:
    assert [here.phase(job_id) for job_id in ("1", "2", "3.0", "3.3")] == [
        *("finished", "failed", "finished", "finished"),
    ]
    assert (here.log("1"), here.log("3.2")) == ("done\n", "member 2\n")


def test_what_ran_and_may_not_start_again_has_failed(here: Box) -> None:
    for job_id in ("4", "6", "9"):
        (row,) = here.wait(job_id)
        assert row["phase"] == "failed", row
        assert "killed from outside" in row["reason"]


def test_what_may_start_again_goes_on_with_its_checkpoints(here: Box) -> None:
    (row,) = here.wait("5")
    assert row["phase"] == "finished", row
    seen = here.home.folder("5") / "checkpoints" / "seen"
    assert seen.read_text() == "attempt 0\nattempt 0\n"


def test_what_waited_is_run_in_its_turn(here: Box) -> None:
    rows = here.wait("7", "8")
    assert [row["phase"] for row in rows] == ["finished", "finished"]
    assert (here.log("7"), here.log("8")) == ("waited\n", "later\n")
    assert rows[0]["ended_at"] <= rows[1]["started_at"]


def test_numbers_go_on_where_they_were(here: Box) -> None:
    assert here.submit("true") == "10"
