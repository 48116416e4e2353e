"""Worker processes, as many as there are processors; none outlives us."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

LOOK_EVERY_S = 1.0


@contextmanager
def workers(given: Executor | None = None) -> Iterator[Executor]:
    """The executor that was given, or one of our own."""
    if given is not None:
        yield given
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processors(), initializer=_end_with, initargs=(os.getpid(),))
    try:
        pool.submit(os.getpid).result()  # so that they are forked before there are threads
        yield pool
    except BaseException:
        # An interrupt must not wait for work that is under way.
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _end_with(parent: int) -> None:
    """Workers whose owner is killed would wait for ever; Ctrl-C is handled by the owner."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_EVERY_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
