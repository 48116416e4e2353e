"""This machine as an agent: wants may be repeated, and facts are asked for by their number."""

import json
from functools import partial
from pathlib import Path

import pytest

from dovetail.core.model import JobId, Node
from dovetail.core.state import State
from dovetail.worlds.agent import Agent, Done, Errand, FactLog, RunId, Work, WorkOutcome
from dovetail.worlds.local.agent import LocalAgent
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.world import Ground, Order
from waiting import until

JOB, GO = JobId("7"), "echo begun; while [ ! -e {0}/go ]; do sleep 0.02; done; echo ran >> {0}/ran"


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    for name in ("runs", "env"):
        (tmp_path / name).mkdir()
    (tmp_path / "env" / "7.json").write_text(json.dumps({"PATH": "/usr/bin:/bin"}))
    return Folders(tmp_path / "runs", tmp_path / "env", tmp_path / "socket", shared=False)


def order_in(folders: Folders) -> Order:
    words = ("/bin/sh", "-c", GO.format(folders.runs))
    return Order(JOB, words, {}, "/", "ann", grace_s=1.0)


def agent_on(folders: Folders) -> Agent:
    order = order_in(folders)
    ground = Ground(
        *(State(), lambda: 0.0, lambda: None),
        *(lambda job_id: order, lambda job_id: None, lambda job_id: {}),
    )
    folders.take_on(order, None)
    return LocalAgent([Node("n", 1, "cpu")], folders, ground, lambda: None)


def errand(folders: Folders, work: Work) -> Errand:
    return Errand(RunId(JOB, 1), work, order_in(folders), (), None, 0, 1 << 30)


def outcomes(agent: Agent, after: int = 0) -> list[WorkOutcome]:
    return [fact.outcome for _, fact in agent.facts(after) if isinstance(fact, Done)]


def _has_told(agent: Agent, number: int) -> bool:
    return len(outcomes(agent)) == number


def test_what_is_wanted_again_is_done_once_also_by_the_next_agent(folders: Folders) -> None:
    agent, run = agent_on(folders), folders.run(JOB, 1)
    for _ in range(3):
        agent.want(errand(folders, Work.BRING_UP))
    until(lambda: outcomes(agent) == [WorkOutcome.UP])
    again = agent_on(folders)  # as after a crash, or on a connection that was lost
    again.want(errand(folders, Work.BRING_UP))
    until(lambda: outcomes(again) == [WorkOutcome.UP])
    (folders.runs / "go").touch()
    until(lambda: run.ending() is not None and not run.is_alive())
    assert (folders.runs / "ran").read_text() == "ran\n"
    assert agent.log(JOB).read(0, 100) == (0, b"begun\n")
    assert [node.id for node in agent.nodes()] == ["n"]


def test_a_run_is_parked_goes_on_and_ends_as_wanted(folders: Folders) -> None:
    agent, run = agent_on(folders), folders.run(JOB, 1)
    for number, work in enumerate((Work.BRING_UP, Work.GIVE_WAY, Work.BRING_UP, Work.END), 1):
        agent.want(errand(folders, work))
        until(partial(_has_told, agent, number))
        group = run.process_group()
        assert (group is not None and group.is_frozen()) is (work is Work.GIVE_WAY)
    assert outcomes(agent) == [
        WorkOutcome.UP,
        WorkOutcome.PARKED,
        WorkOutcome.UP,
        WorkOutcome.ENDED,
    ]
    until(lambda: not run.is_alive())


def test_facts_follow_the_last_one_that_was_seen() -> None:
    rung: list[int] = []
    facts = FactLog(lambda: rung.append(1))
    for fact in "abc":
        facts.post(fact)
    assert facts.after(0) == [(1, "a"), (2, "b"), (3, "c")]
    assert facts.after(0) == facts.after(0), "asked again, told again"
    assert facts.after(2) == [(3, "c")]
    facts.post("d")
    assert (facts.after(3), len(rung)) == ([(4, "d")], 4)
