"""A service under a steady stream while replicas and the daemon are killed, scaled and put to sleep."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.lines import Line
from benchmarks.live import at, daemon, dovetail, process_of
from benchmarks.service_stream import Stream, declare, ready, send, wait_until
from dovetail.client.connection import Client
from dovetail.home import home_in
from dovetail.worlds.local.runs.run import ProcessRun

RATE = 200
SECONDS = 600.0
NAME = "chaos"


def measured() -> Iterator[Line]:
    """200 requests a second for ten minutes; a minute or two between two blows."""
    with daemon(slots=4) as (client, home):
        stream, begun = storm(client, home, SECONDS)
    yield from lines(stream, begun, SECONDS)


def storm(client: Client, home: Path, seconds: float) -> tuple[Stream, Counter[str]]:
    """The stream, and how often each request was begun by a replica."""
    notes = home / "notes"
    port = declare(
        client,
        home,
        NAME,
        replicas={"min": 2, "max": 3},
        at_once=32,
        idle_s=2,
        envs={"NOTES": str(notes)},
    )
    wait_until(lambda: ready(client, NAME) == 2)
    blows = threading.Thread(target=strike, args=(home, seconds / 6))
    blows.start()
    due = [number / RATE for number in range(int(RATE * seconds))]
    stream = asyncio.run(send(port, due, lambda number: f"/?id={number}&s=0.01"))
    blows.join()
    return stream, Counter(notes.read_text().split())


def strike(home: Path, pause_s: float) -> None:
    """A replica is killed; the daemon is killed and started again; more replicas; fewer, of which one
    sleeps; it is woken."""
    time.sleep(pause_s)
    with closing(Client(home_in(home))) as client:
        job = client.get(f"/v1/services/{NAME}")["replicas"][0]["job"]
    pid = ProcessRun(home / "runs" / job / "1").main_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    time.sleep(pause_s)
    os.kill(process_of(home), signal.SIGKILL)
    time.sleep(min(pause_s, 5.0) / 2)
    dovetail(home, "up")
    time.sleep(pause_s)
    for least, there in ((3, ready_3), (1, one_sleeps), (2, ready_2)):
        with closing(Client(home_in(home))) as client:
            client.post(f"/v1/services/{NAME}/scale", {"least": least, "most": 3})
            wait_until(partial(there, client), 120)
        time.sleep(pause_s / 2)


def ready_3(client: Client) -> bool:
    return ready(client, NAME) == 3


def ready_2(client: Client) -> bool:
    return ready(client, NAME) >= 2


def one_sleeps(client: Client) -> bool:
    return "asleep" in states(client)


def states(client: Client) -> list[str]:
    return [own["state"] for own in client.get(f"/v1/services/{NAME}")["replicas"]]


def lines(stream: Stream, begun: Counter[str], seconds: float) -> Iterator[Line]:
    sent, statuses = int(RATE * seconds), stream.statuses()
    yield Line(
        f"requests without an answer, of {sent:,}", f"{stream.lost()}", "0", not stream.lost()
    )
    twice = sum(number > 1 for number in begun.values())
    yield Line("requests that two replicas began", f"{twice}", "0", not twice)
    unknown = [n for n, own in stream.answers.items() if own[0][0] == 200 and not begun[str(n)]]
    yield Line("answers that nobody has given", f"{len(unknown)}", "0", not unknown)
    broken = statuses[502]
    yield Line("begun by a replica that was killed (502)", f"{broken}", "at most 32", broken <= 32)
    yield Line("refused (503)", f"{statuses[503]}", "said, with Retry-After", True)
    good = statuses[200] / sent
    yield Line("answered well", f"{good:.4%}", "99.9%", good >= 0.999)
    p99 = at(0.99, stream.latencies())
    yield Line("99 of 100 within", f"{p99 * 1e3:.1f} ms", "said", True)
