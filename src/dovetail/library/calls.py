"""Calls of Python functions as jobs: an executor as in `concurrent.futures`."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from dovetail.api.job_row import Ids, JobDetails, Jobs
from dovetail.api.wire import read
from dovetail.client.connection import Client, DaemonUnreachable
from dovetail.client.shell import job_as_sent
from dovetail.core.errors import BadInput, DovetailError
from dovetail.library.worker import CALL, RESULT, refuse_while_imported

T = TypeVar("T")
_MOST_ROWS = 10_000
_FIRST_LOOK_S, _MOST_S = 0.05, 1.0


class RemoteError(DovetailError):
    """The job of a call failed: what it printed last, and the trace of its error if there is one."""


class _Call(Future[Any]):
    def __init__(self, client: Client, job_id: str, folder: Path) -> None:
        super().__init__()
        self.job_id = job_id
        self.folder = folder
        self._client = client

    def cancel(self) -> bool:
        """Its job, wherever it is; True if it had not begun."""
        with suppress(DovetailError):
            _post(self._client, "/v1/jobs/cancel", {"ids": [self.job_id]})
        return super().cancel()

    def settle(self, row: JobDetails, log: Callable[[], str]) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            is_good, value = pickle.loads((self.folder / RESULT).read_bytes())
        except (OSError, pickle.PickleError, EOFError, AttributeError, ImportError) as error:
            why = row.reason or f"exit code {row.exit_code}"
            last = "\n".join(log().strip().split("\n")[-5:])
            told = f"job {self.job_id} {row.phase} without a result ({why}; {error})"
            self.set_exception(RemoteError(f"{told}\n{last}" if last else told))
            return
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        if is_good:
            self.set_result(value)
        else:
            self.set_exception(_with_cause(value, self.job_id))


def _with_cause(told: tuple[BaseException | None, str], job_id: str) -> BaseException:
    """The error of the function, raised here, with the trace of there."""
    error, trace = told
    remote = RemoteError(f"in job {job_id}:\n{trace}")
    if error is None:
        return remote
    error.__cause__ = remote
    return error


class JobExecutor(Executor):
    """Each call is a job with the fields that it was made with. Made by `Session.executor`."""

    def __init__(self, client: Client, fields: Mapping[str, Any]) -> None:
        from dovetail.library.session import spec_of

        self._client = client
        self._spec = spec_of(fields)
        self._calls: dict[str, _Call] = {}
        self._lock = threading.Lock()
        self._watcher: threading.Thread | None = None
        self._is_shut = False

    def submit(self, function: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        if self._is_shut:
            raise RuntimeError("the executor is shut down; make another")
        refuse_while_imported()
        folder = _call_folder()
        try:
            (folder / CALL).write_bytes(_pickled(function, args, named))
            words = [sys.executable, "-m", "dovetail.library.worker", str(folder)]
            name = getattr(function, "__name__", "call")
            spec = {"name": name, **self._spec, "command": words}
            asked = {"jobs": [job_as_sent(spec)]}
            job_id = read(Ids, _post(self._client, "/v1/jobs", asked)).ids[0]
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        call = _Call(self._client, job_id, folder)
        with self._lock:
            self._calls[job_id] = call
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, daemon=True)
                self._watcher.start()
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_shut = True
        with self._lock:
            calls, watcher = list(self._calls.values()), self._watcher
        if cancel_futures:
            for call in calls:
                call.cancel()
        if wait and watcher is not None:
            watcher.join()

    def _watch(self) -> None:
        """One look for all of them. A daemon that is away comes back."""
        client, pause_s = self._client.another(), _FIRST_LOOK_S
        while True:
            with suppress(DaemonUnreachable):
                live = {row.id for row in read(Jobs, client.get("/v1/jobs", limit=_MOST_ROWS)).jobs}
                ended = [call for job_id, call in list(self._calls.items()) if job_id not in live]
                for call in ended:
                    self._settle(client, call)
                pause_s = _FIRST_LOOK_S if ended else min(pause_s * 1.5, _MOST_S)
            with self._lock:
                if not self._calls:
                    self._watcher = None
                    client.close()
                    return
            time.sleep(pause_s)

    def _settle(self, client: Client, call: _Call) -> None:
        row = read(JobDetails, client.get(f"/v1/jobs/{call.job_id}"))
        if row.ended_at is None:
            return  # submitted since that look, or beyond what it shows
        call.settle(row, lambda: client.text(f"/v1/jobs/{call.job_id}/log", tail=2000))
        with self._lock:
            self._calls.pop(call.job_id, None)


def _post(client: Client, path: str, asked: Mapping[str, object]) -> Any:
    """From any thread: on a connection of its own."""
    own = client.another()
    try:
        return own.post(path, asked)
    finally:
        own.close()


def _call_folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dovetail" / "calls"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=cache))


def _pickled(function: Callable[..., Any], args: Any, named: Any) -> bytes:
    """What the call needs: also the script, as `multiprocessing` has it, if anything is of it."""
    try:
        call = _pickler().dumps((function, args, named))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise BadInput(
            f"{function!r} cannot be sent to a job ({error}); define it in a file, or "
            "pip install cloudpickle"
        ) from None
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    is_of_main = b"__main__" in call or b"__mp_main__" in call
    around = {"main": os.path.abspath(main) if main and is_of_main else None, "path": sys.path}
    return pickle.dumps((around, call))


def _pickler() -> Any:
    """Functions of notebooks and lambdas need more than Python's own."""
    return import_module("cloudpickle") if find_spec("cloudpickle") else pickle
