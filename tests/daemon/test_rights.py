"""A job never runs with more than its submitter's rights, whatever is typed in between."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from dovetail.client.git_state import commit_of
from dovetail.core.errors import BadInput, DovetailError
from dovetail.daemon.settings import settle_whose
from dovetail.daemon.users.callers import Caller, caller_of
from dovetail.daemon.users.job_owners import OwnerUnknown, rights_of
from dovetail.daemon.users.workdir import check_folder, commit_there
from dovetail.home import Home, home_in
from dovetail.store import Store
from dovetail.worlds.local import checkpoints
from dovetail.worlds.world import UserAccount
from two_users import NOBODY, as_nobody, as_root
from typed_box import Box
from waiting import until


@pytest.fixture
def shared(open_folder: Path) -> Iterator[Box]:
    """A box for everybody, with one job of nobody's that waits behind one that runs."""
    box = Box(open_folder / "home")
    box.well("up", "--system", "--group", "nogroup", "--slots", 1)
    yield box
    box("down", "--cancel")


def queued_by_nobody(box: Box, marker: Path) -> str:
    job = {"spec": {"run": f"id -u > {marker}"}, "workdir": "/", "environment": {"PATH": "/bin"}}
    status, answer = as_nobody(box.home / "dovetail.sock", "POST", "/v1/jobs", {"jobs": [job]})
    assert status == 201, answer
    return str(answer["ids"][0])


@as_root
def test_what_down_advises_takes_the_jobs_on_with_their_owners_rights(
    shared: Box,
    tmp_path: Path,
    open_folder: Path,
) -> None:
    open_folder.chmod(0o777)
    marker = open_folder / "whoami"
    blocker = shared.sh("sleep 600")
    shared.in_phase(blocker, "running")
    job = queued_by_nobody(shared, marker)
    told = shared.well("down")
    assert f"dovetail --home {shared.home} up --system takes them on again" in told
    refused = shared("up", "--slots", 1)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert f"dovetail --home {shared.home} up --system" in refused.err
    assert not marker.exists()
    assert shared("queue").err.endswith(f"start one: dovetail --home {shared.home} up --system\n")
    assert "up --system" in shared("doctor").out
    shared.well("up", "--system")  # the group is remembered
    shared.well("cancel", blocker)
    shared.until(job, lambda row: row["phase"] == "finished")
    assert marker.read_text() == f"{NOBODY}\n"


@as_root
def test_a_job_can_open_its_own_streams_by_name(shared: Box) -> None:
    """As in `echo failed > /dev/stderr`: its pipes were made by root."""
    script = "echo out > /dev/stdout; echo err > /dev/stderr"
    job = {"spec": {"run": script}, "workdir": "/", "environment": {"PATH": "/bin"}}
    status, answer = as_nobody(shared.home / "dovetail.sock", "POST", "/v1/jobs", {"jobs": [job]})
    assert status == 201, answer
    row = shared.until(str(answer["ids"][0]), lambda row: row["ended_at"] is not None)
    assert shared.well("logs", answer["ids"][0]) == "out\nerr\n", row


def test_a_copy_of_a_checkpoint_that_its_owner_stops_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other studies of that owner wait for it."""
    stopped = tmp_path / "cp"
    stopped.write_text("#!/bin/sh\nkill -STOP $$\n")
    stopped.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(checkpoints, "COPIED_WITHIN_S", 0.3)
    with pytest.raises(DovetailError, match="could not be copied within"):
        checkpoints.copy(tmp_path, tmp_path / "target", None)
    stopped.write_text("#!/bin/sh\nyes no-room | head -100000 >&2\necho last >&2\nexit 1\n")
    monkeypatch.setattr(checkpoints, "COPIED_WITHIN_S", 60)
    with pytest.raises(DovetailError, match=r"could not be copied: last$"):
        checkpoints.copy(tmp_path, tmp_path / "target", None)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path / "dovetail.db", reserve_bytes=4096)) as store:
        yield store


def homes(store: Store) -> tuple[Home, Home]:
    """The same folder as one user's own and as everybody's."""
    own = home_in(store.path.parent)
    return own, replace(own, system=True)


def test_a_home_whose_journal_does_not_say_so_is_known_by_its_jobs(journal: Store) -> None:
    """Of an earlier version, or salvaged."""
    own, everybodys = homes(journal)
    journal.put_spec("7", json.dumps({"uid": os.geteuid() + 1}))
    journal.put_spec("8.1", json.dumps({"of": "7"}))
    journal.commit()
    for job in ("7", "8.1"):
        with pytest.raises(BadInput, match=f"is everybody's: .* --home {own.state} up --system"):
            settle_whose(own, journal, [job])
    settle_whose(everybodys, journal, ["7"])
    assert own.mark.exists()


def test_a_personal_home_with_jobs_does_not_become_everybodys(journal: Store) -> None:
    own, everybodys = homes(journal)
    settle_whose(own, journal, [])
    journal.set_meta("next_job", "2")
    journal.commit()
    with pytest.raises(BadInput, match=f"one user's own, with their jobs; type: .*{own.state} up "):
        settle_whose(everybodys, journal, [])
    settle_whose(own, journal, [])
    assert not own.mark.exists()


def test_a_home_without_jobs_may_become_everybodys_and_stays_so(journal: Store) -> None:
    own, everybodys = homes(journal)
    for home in (own, everybodys):
        settle_whose(home, journal, [])
        journal.commit()
    with pytest.raises(BadInput, match="is everybody's"):
        settle_whose(own, journal, [])


@as_root
def test_a_folder_that_another_user_could_change_is_no_home_for_everybody(
    open_folder: Path,
) -> None:
    theirs = open_folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    precious = open_folder / "precious"
    (theirs / "daemon.log").symlink_to(precious)  # before we looked, we would have written there
    for words in (["--system", "--group", "nogroup"], []):
        said = Box(theirs)("up", *words)
        assert (said.code, said.err.count("\n")) == (1, 1)
        assert f"{theirs} is another user's" in said.err
    assert not precious.exists()


@as_root
def test_what_is_in_others_folders_is_not_told_by_what_is_refused(open_folder: Path) -> None:
    closed = open_folder / "closed"
    (closed / "there").mkdir(parents=True)
    closed.chmod(0o700)
    nobody = Caller(NOBODY, "nobody", False, (NOBODY,))
    for name in ("there", "not-there"):
        with pytest.raises(BadInput, match=f"there is no folder .*{name}"):
            check_folder(str(closed), name, nobody)
    check_folder(str(open_folder), "", nobody)
    check_folder(str(closed), "there", caller_of(0, 0))


# -------------------------------------------------------------------------------------- the owner


class Kept(NamedTuple):
    uid: int | None = None
    gid: int | None = None


def test_a_job_of_an_unknown_owner_is_not_run() -> None:
    with pytest.raises(OwnerUnknown, match="nobody wrote down whose job 7 is"):
        rights_of(Kept(), "7", "ann", daemon_uid=0, shared=True)


def test_a_daemon_without_roots_rights_runs_its_own_users_jobs_alone() -> None:
    own = rights_of(Kept(1000), "7", "ann", daemon_uid=1000, shared=False)
    assert own is None
    with pytest.raises(OwnerUnknown, match="job 7 is user 1001's, and this daemon runs as 1000"):
        rights_of(Kept(1001), "7", "ann", daemon_uid=1000, shared=False)


def test_roots_own_daemon_gives_up_its_rights_for_a_job_of_somebody_else() -> None:
    """Whatever the flags and the journal say of the home."""
    found = rights_of(Kept(NOBODY), "7", "nobody", daemon_uid=0, shared=False)
    assert found is not None
    assert found.uid == NOBODY
    assert found.groups


def test_a_user_who_was_known_and_cannot_be_looked_up_is_not_taken_for_one_without_a_name() -> None:
    with pytest.raises(OwnerUnknown, match=r"user 4242424 .*cannot be looked up"):
        rights_of(Kept(4242424, 7), "7", "ann", daemon_uid=0, shared=True)
    nameless = rights_of(Kept(4242424, 7), "7", "4242424", daemon_uid=0, shared=True)
    assert nameless == UserAccount(4242424, 7, (7,))


def test_a_number_that_has_become_somebody_elses_does_not_get_the_job() -> None:
    with pytest.raises(OwnerUnknown, match=f"user {NOBODY} was 'ann' .* and is 'nobody' now"):
        rights_of(Kept(NOBODY), "7", "ann", daemon_uid=0, shared=True)


@as_root
def test_the_files_that_a_job_names_for_its_output_are_opened_with_its_owners_rights(
    shared: Box, open_folder: Path
) -> None:
    roots = open_folder / "roots"
    roots.write_text("root's own")
    link, own = open_folder / "theirs" / "link", open_folder / "theirs" / "new" / "own"
    link.parent.mkdir()
    link.symlink_to(roots)
    os.chown(link.parent, NOBODY, NOBODY)

    def run(output: Path) -> dict[str, object]:
        spec = {"run": "echo mine", "output": str(output)}
        job = {"spec": spec, "workdir": "/", "environment": {"PATH": "/bin"}, "umask": 0o027}
        answer = as_nobody(shared.home / "dovetail.sock", "POST", "/v1/jobs", {"jobs": [job]})[1]
        return shared.until(answer["ids"][0], lambda row: row["phase"] in ("finished", "failed"))

    for output in (roots, link, open_folder / "here"):
        assert "Permission denied" in str(run(output)["reason"])
    assert roots.read_text() == "root's own"
    assert run(own)["phase"] == "finished"
    assert own.read_text() == "mine\n"
    assert (own.stat().st_uid, own.stat().st_mode & 0o777) == (NOBODY, 0o640)


@as_root
def test_nobody_else_runs_a_job_again_with_its_environment(shared: Box, open_folder: Path) -> None:
    open_folder.chmod(0o777)
    job = queued_by_nobody(shared, open_folder / "whoami")
    shared.until(job, lambda row: row["phase"] == "finished")
    said = shared("again", job)
    assert said.err == f"dovetail: job {job} is nobody's: only nobody may run it again\n"
    socket = shared.home / "dovetail.sock"
    assert as_nobody(socket, "POST", f"/v1/jobs/{job}/again", {})[0] == 201
    roots = shared.sh("true")
    shared.in_phase(roots, "finished")
    assert as_nobody(socket, "POST", f"/v1/jobs/{roots}/again", {})[0] == 403


@as_root
def test_the_commit_of_a_folder_is_asked_for_with_its_users_rights(
    open_folder: Path, tmp_path: Path
) -> None:
    theirs, roots = open_folder / "theirs", tmp_path / "roots"
    for folder, uid in ((theirs, NOBODY), (roots, 0)):
        folder.mkdir()
        os.chown(folder, uid, uid)
        for words in ("init -q", "commit -q --allow-empty -m one"):
            who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
            command = ["git", "-C", str(folder), *who, *words.split()]
            subprocess.run(command, check=True, user=uid, group=uid, extra_groups=[])
    nobody = Caller(NOBODY, "nobody", admin=False, groups=(NOBODY,))
    assert commit_there(str(open_folder), "theirs", nobody) == commit_of(str(theirs))
    assert commit_there(str(roots), "", nobody) is None  # pytest's folders are root's own
    root = Caller(0, "root", admin=True)
    assert commit_there(str(roots), "", root) == commit_of(str(roots))
    (theirs / ".git" / "HEAD").unlink()
    os.mkfifo(theirs / ".git" / "HEAD")
    assert commit_there(str(theirs), "", root) is None  # and nobody waits for what comes by it


@as_root
def test_hooks_have_the_rights_of_the_jobs_user(shared: Box, open_folder: Path) -> None:
    open_folder.chmod(0o777)
    (shared.home / "hooks").mkdir(mode=0o755)
    for name in ("before-start", "after-end"):
        hook = shared.home / "hooks" / name
        hook.write_text(
            f"#!/bin/sh\nid -u > {open_folder}/{name}.new; mv {open_folder}/{name}.new "
            f"{open_folder}/{name}\n"
        )
        hook.chmod(0o755)
    queued_by_nobody(shared, open_folder / "whoami")
    for name in ("before-start", "whoami", "after-end"):
        until((open_folder / name).exists)
    until((open_folder / "whoami").read_text)
    found = {name: (open_folder / name).read_text() for name in ("before-start", "after-end")}
    assert set(found.values()) == {f"{NOBODY}\n"}


@as_root
def test_a_new_folder_of_the_systems_socket_is_open_to_its_users(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon's umask is for itself alone."""
    from dovetail.daemon.http import server

    folder = open_folder / "run"
    place = Home(open_folder, folder / "dovetail.sock", system=True)
    monkeypatch.setattr(server, "system_home", lambda: place)
    before = os.umask(0o077)
    try:
        server._open_to_all(folder)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o755
