"""Messages to users: what has happened to their jobs and studies, told by a program of their own rights.

An index of the state sees what happens and puts it into a queue, which costs the loop nothing. A
thread finds out who wants to be told, and writes the message into the outbox, where it stays until it is
told or given up, also if the daemon is killed. A thread for each user tells them, one program after the
other: who cannot be reached keeps nobody else waiting.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from time import monotonic, sleep, time_ns
from typing import Any, Final

from dovetail import notify
from dovetail.core.entries import Reported
from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId
from dovetail.core.track import Phase, Track
from dovetail.core.view import CLOSES, ENDS, REPORTS, RUNS, View
from dovetail.daemon.history.job_rows import phase_of
from dovetail.daemon.history.submission_records import record_in
from dovetail.home import Home
from dovetail.notify.message import BEST, END, FAILURE, HOOK, START, Message, message_of
from dovetail.notify.telling import AGAIN_AFTER_S
from dovetail.store import JournalReader
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.workloads.study.kind import studies_of
from dovetail.workloads.study.track import StudyTrack
from dovetail.worlds.world import UserAccount

PROGRAM: Final = str(Path(notify.__file__).with_name("__main__.py"))
AFTER_END: Final = "after-end"  # the administrator's program for it, in the folder of hooks
_LONGEST_S = 300.0
_ON_DISK_WITHIN_S = 2.0
_LAST_WITHIN_S = 2.0
_LOOK_AGAIN_S = 0.01
_MANY = 5  # of one user that wait: they are told together

log = logging.getLogger("dovetail.daemon")

AccountOf = Callable[[JobId], UserAccount | None]


@dataclass(frozen=True, slots=True)
class JobTidings:
    """To a job, or to a study, whose account is that of one of its jobs."""

    event: str
    job: JobId
    user: str
    title: str
    text: str
    name: str = ""
    phase: str = ""
    exit_code: int | None = None
    wishes: Mapping[str, Any] | None = None  # of a study; those of a job are in its record


class Messages:
    """The index, and the thread behind it."""

    def __init__(self, home: Home, reader: JournalReader, account_of: AccountOf) -> None:
        self.watches = RUNS | ENDS | REPORTS | CLOSES
        self._reader: Final = reader
        self._hook: Final = home.hooks / AFTER_END
        self._outbox: Final = Outbox(home.outbox, account_of)
        self._queue: Final[SimpleQueue[JobTidings]] = SimpleQueue()
        self._begun: Final[set[JobId]] = set()  # whose first start was seen
        self._best: Final[dict[str, object]] = {}  # by study
        self._view: View | None = None

    def build(self, view: View) -> Messages:
        self._view = view
        return self

    def start(self) -> None:
        """Messages that an earlier daemon has left are told as well."""
        self._outbox.take_up()
        threading.Thread(target=self._work, name="messages", daemon=True).start()

    def finish(self) -> None:
        """What happened at the last is told, if that is quick; the rest by the next daemon."""
        until = monotonic() + _LAST_WITHIN_S
        while monotonic() < until and not (self._queue.empty() and self._outbox.is_empty()):
            sleep(_LOOK_AGAIN_S)

    # ---------------------------------------------------------------------------- on the loop

    def runs(self, track: Track) -> None:
        assert self._view is not None
        job = track.job
        if track.first_start_at != self._view.now or job.member is not None:
            return
        if job.id not in self._begun:
            self._begun.add(job.id)
            waited = duration_text(track.first_start_at - track.submitted_at)
            self._put(START, track, f"{_called(track)} has started", f"It had waited {waited}.")

    def ends(self, track: Track) -> None:
        self._begun.discard(track.job.id)
        if track.job.member is None:
            event = FAILURE if track.phase in (Phase.FAILED, Phase.REFUSED) else END
            self._put(event, track, f"{_called(track)} {_how(track)}", _text(track))

    def reports(self, track: Track, entry: Reported) -> bool:
        assert self._view is not None
        study = studies_of(self._view).of(track) if track.job.member is not None else None
        if study is not None and study.best is not None:
            before, now = self._best.get(study.id), study.best[1]
            self._best[study.id] = now
            if before is not now and (before is not None or len(study.best[0].points) == 1):
                self._queue.put(_of_study(BEST, study, _best_text(study)))
        return False

    def closes(self, study: StudyTrack, reason: str) -> None:
        self._best.pop(study.id, None)
        if study.trials:
            self._queue.put(_of_study(END, study, f"It is over: {reason}. {_best_text(study)}"))

    def _put(self, event: str, track: Track, title: str, text: str) -> None:
        job, ended = track.job, track.ended_at >= 0
        code = (0 if track.phase is Phase.FINISHED else track.exit_code) if ended else None
        phase = phase_of(track)
        self._queue.put(JobTidings(event, job.id, job.user, title, text, job.name, phase, code))

    # ------------------------------------------------------------------------------ beside it

    def _work(self) -> None:
        while True:
            happened = self._queue.get()
            try:
                self._heed(happened)
            except Exception:
                log.exception("nobody could be told of job %s", happened.job)

    def _heed(self, happened: JobTidings) -> None:
        wishes = happened.wishes if happened.wishes is not None else self._wishes(happened.job)
        if is_wanted(happened.event, wishes):
            self._outbox.add(_message(happened, tuple(wishes["notify"])))
        if happened.phase in ("finished", "failed", "cancelled") and is_hook(self._hook):
            self._outbox.add(_message(happened, (f"{HOOK}:{self._hook}",)))

    def _wishes(self, job_id: str) -> Mapping[str, Any]:
        """A job that starts at once may not be on disk yet."""
        until = monotonic() + _ON_DISK_WITHIN_S
        while (record := record_in(self._reader.spec, job_id)) is None and monotonic() < until:
            sleep(_LOOK_AGAIN_S)
        return {} if record is None else record.spec


class Outbox:
    """Messages on their way: a file each, removed when it is told or given up."""

    def __init__(self, folder: Path, account_of: AccountOf) -> None:
        self._folder: Final = folder
        self._account_of: Final = account_of
        self._waiting: Final[dict[str, SimpleQueue[Path]]] = {}  # by user

    def take_up(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for path in sorted(self._folder.glob("*.json")):
            self._hand_on(path, message_of(path.read_text("utf-8")).user)

    def add(self, message: Message) -> None:
        path = self._folder / f"{time_ns():020}.json"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(message.to_json())
        self._hand_on(path, message.user)

    def is_empty(self) -> bool:
        return not any(self._folder.glob("*.json"))

    def _hand_on(self, path: Path, user: str) -> None:
        if user not in self._waiting:
            queue = self._waiting[user] = SimpleQueue[Path]()
            name = "messages-to-a-user"
            threading.Thread(target=self._work, args=(queue,), name=name, daemon=True).start()
        self._waiting[user].put(path)

    def _work(self, queue: SimpleQueue[Path]) -> None:
        while True:
            paths = [queue.get()]
            while not queue.empty():
                paths.append(queue.get())
            try:
                for message in gathered([message_of(path.read_text("utf-8")) for path in paths]):
                    self._tell(message)
            except Exception:
                log.exception("messages could not be told")
            for path in paths:
                path.unlink(missing_ok=True)

    def _tell(self, message: Message) -> None:
        try:
            account = self._account_of(JobId(message.job_id))
        except DovetailError as error:
            log.warning("nobody is told of job %s: %s", message.job_id, error)
            return
        trouble = tell_as(account, message)
        if trouble:
            log.warning("job %s: its user could not be told: %s", message.job_id, trouble)


def tell_as(
    account: UserAccount | None, message: Message, again_after_s: Sequence[float] = AGAIN_AFTER_S
) -> str:
    """By a program with the rights of that user (None: ours), ended with us; what went wrong, or ""."""
    who = None if account is None else asdict(account)
    given = {"account": who, "message": message.to_json(), "again_after_s": list(again_after_s)}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-X", "utf8", PROGRAM],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_S,
            check=False,
            cwd="/",
            env=dict(os.environ) if account is None else {},
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2][:500]


def is_wanted(event: str, wishes: Mapping[str, Any]) -> bool:
    on = wishes.get("notify_on") or [END]
    return bool(wishes.get("notify")) and (event in on or (event == FAILURE and END in on))


def is_hook(path: Path) -> bool:
    """A program of the daemon's own user or root that nobody else can change."""
    try:
        found = path.stat()
    except OSError:
        return False
    is_ours = found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022
    if not is_ours:
        log.warning("%s is not run: others could change it", path)
    return is_ours and bool(found.st_mode & 0o111)


def gathered(messages: Sequence[Message]) -> list[Message]:
    """Many of the same kind as one, lest somebody gets ten thousand mails."""
    found: list[Message] = []
    for ways in dict.fromkeys(message.ways for message in messages):
        own = [message for message in messages if message.ways == ways]
        is_hook = any(way.startswith(f"{HOOK}:") for way in ways)
        if len(own) <= _MANY or is_hook:
            found += own
            continue
        failed = sum(message.event == FAILURE for message in own)
        title = f"{counted(len(own), 'message')} of your jobs, {failed} of failures"
        shown = [f"{message.title}." for message in own[:20]]
        text = "\n".join([*shown, *(["…"] if len(own) > len(shown) else [])])
        found.append(replace(own[-1], title=title, text=text))
    return found


def _message(happened: JobTidings, ways: tuple[str, ...]) -> Message:
    return Message(
        event=happened.event,
        ways=ways,
        title=happened.title,
        text=f"{happened.text}\nMachine {os.uname().nodename}.",
        job_id=happened.job,
        name=happened.name,
        phase=happened.phase,
        exit_code=happened.exit_code,
        user=happened.user,
    )


def _of_study(event: str, study: StudyTrack, text: str) -> JobTidings:
    trial = next(iter(study.trials.values()))
    design = study.design
    what = "has a new best trial" if event == BEST else "has ended"
    wishes = json.loads(design.spec or "{}")
    title = f"Study {design.name} {what}"
    return JobTidings(event, trial.jobs[0], design.user, title, text, design.name, wishes=wishes)


def _best_text(study: StudyTrack) -> str:
    if study.best is None:
        return "No trial has reported anything."
    trial, point = study.best
    settings = ", ".join(f"{name}={value}" for name, value in trial.settings)
    metric = study.design.metric
    return f"Trial {trial.number}: {metric} {point.value:.6g} at step {point.step:g} ({settings})."


def _called(track: Track) -> str:
    job = track.job
    return f"Job {job.id} ({job.name})" if job.name else f"Job {job.id}"


def _how(track: Track) -> str:
    if track.phase is Phase.FINISHED:
        return "has finished"
    return "was cancelled" if track.phase is Phase.CANCELLED else "has failed"


def _text(track: Track) -> str:
    ran = f"It ran for {duration_text(track.held_s)}." if track.held_s else "It never ran."
    code = track.exit_code
    why = track.reason or (f"exit code {code}" if code is not None else "")
    return f"{ran} {why[0].upper()}{why[1:]}." if why and track.phase is not Phase.FINISHED else ran
