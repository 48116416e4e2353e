"""A running daemon from Python: submit, wait, map."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeVar

from dovetail.api.job_row import ENDED, Ids, JobDetails, JobRow, Jobs
from dovetail.api.wire import read
from dovetail.client.connection import Client
from dovetail.client.follow import wait_for
from dovetail.client.shell import job_as_sent
from dovetail.core.errors import DovetailError
from dovetail.home import find_home
from dovetail.library.worker import refuse_while_imported

if TYPE_CHECKING:
    from dovetail.library.calls import JobExecutor

T = TypeVar("T")
_RESOURCES = ("gpus", "gpu_memory", "share", "cpus", "memory", "accelerators", "any_of")


@dataclass(frozen=True)
class SubmittedJob:
    """A job of the daemon; of an array, one of its members."""

    id: str
    _client: Client = field(repr=False, compare=False)

    def show(self) -> JobDetails:
        """Everything about it, as of now."""
        return read(JobDetails, self._client.get(f"/v1/jobs/{self.id}"))

    @property
    def phase(self) -> str:
        return self.show().phase

    def done(self) -> bool:
        return self.phase in ENDED

    def wait(self, timeout: float | None = None) -> JobDetails:
        """Until it has ended, also across a restart of the daemon."""
        return wait_for(self._client, self.id, _until(timeout))

    def result(self, timeout: float | None = None) -> JobDetails:
        """The same, for a job that must finish well."""
        row = self.wait(timeout)
        if row.phase != "finished":
            why = row.reason or f"exit code {row.exit_code}"
            raise DovetailError(f"job {self.id} {row.phase}: {why}")
        return row

    def log(self) -> str:
        return self._client.text(f"/v1/jobs/{self.id}/log")

    def cancel(self) -> None:
        self._client.post("/v1/jobs/cancel", {"ids": [self.id]})

    def pause(self) -> None:
        self._client.post("/v1/jobs/pause", {"ids": [self.id]})

    def resume(self) -> None:
        self._client.post("/v1/jobs/resume", {"ids": [self.id]})

    def again(self, **changes: Any) -> SubmittedJob:
        """Submit the job once more, as `dovetail again` does."""
        asked = {"changes": spec_of(changes)}
        found = read(Ids, self._client.post(f"/v1/jobs/{self.id}/again", asked))
        return SubmittedJob(found.ids[0], self._client)


class Session:
    """The daemon of this machine. `fields` are those of a job file; gpus, cpus, memory, share and
    gpu_memory are its resources."""

    def __init__(self, home: str | PathLike[str] | None = None) -> None:
        self._client = Client(find_home(None if home is None else fspath(home)))

    def submit(self, command: Sequence[object] | str, **fields: Any) -> SubmittedJob:
        """A command as a list, or a shell script as a text."""
        return self.submit_array(command, **fields)[0]

    def submit_array(self, command: Sequence[object] | str, **fields: Any) -> list[SubmittedJob]:
        """All jobs of an array: `array="0-9"`."""
        refuse_while_imported()
        is_script = isinstance(command, str)
        what = {"run": command} if is_script else {"command": [str(word) for word in command]}
        job = job_as_sent({**what, **spec_of(fields)})
        found = read(Ids, self._client.post("/v1/jobs", {"jobs": [job]}))
        return [SubmittedJob(own, self._client) for own in found.ids]

    def job(self, job_id: str | int) -> SubmittedJob:
        return SubmittedJob(str(job_id), self._client)

    def queue(self) -> list[JobRow]:
        """What runs, then what waits."""
        return read(Jobs, self._client.get("/v1/jobs", limit=10_000)).jobs

    def executor(self, **fields: Any) -> JobExecutor:
        """Calls of Python functions as jobs, with the interface of `concurrent.futures`."""
        from dovetail.library.calls import JobExecutor

        return JobExecutor(self._client.another(), fields)

    def map(
        self, function: Callable[..., T], *arguments: Iterable[Any], **fields: Any
    ) -> Iterator[T]:
        """The function of each, a job a call, in order."""
        with self.executor(**fields) as executor:
            yield from executor.map(function, *arguments)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def connect(home: str | PathLike[str] | None = None) -> Session:
    """To the daemon that keeps its things there; else to the one that the commands speak to."""
    refuse_while_imported()
    session = Session(home)
    session.queue()  # one that is not there is said now
    return session


def spec_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Resources in a table of their own, as a job file has them."""
    own = {name: value for name, value in fields.items() if name not in _RESOURCES}
    asked = {name: value for name, value in fields.items() if name in _RESOURCES}
    return {**own, "resources": {**own.get("resources", {}), **asked}} if asked else own


def _until(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout
