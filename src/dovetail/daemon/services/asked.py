"""One question to a replica: only the status of its answer counts.

Replicas are programs of users and may answer whatever they like: all of an answer has to come in time,
of so much at most, and none of it is repeated in a message.
"""

from __future__ import annotations

import socket
from time import monotonic

import h11

from dovetail.worlds.hosting import Endpoint

_MOST_BYTES = 64 * 1024  # of notes and headers


def asked(endpoint: Endpoint, method: str, path: str, within_s: float) -> str:
    """Why its answer is not a good one; "" if it is."""
    what = f"{method} {path} at {endpoint}"
    try:
        status = _status(endpoint, method, path, monotonic() + within_s)
    except TimeoutError:
        return f"{what}: no answer within {within_s:g} s"
    except OSError as error:
        return f"{what}: {error}"
    except (h11.ProtocolError, ValueError):
        return f"{what}: the answer is no HTTP"
    return "" if 200 <= status < 300 else f"{method} {path} is answered with {status}"


def _status(endpoint: Endpoint, method: str, path: str, deadline: float) -> int:
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_BYTES)
    headers = [("Host", str(endpoint)), ("Content-Length", "0"), ("Connection", "close")]
    request = h11.Request(method=method, target=path, headers=headers)
    with socket.create_connection(endpoint, _left_s(deadline)) as connection:
        connection.sendall((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
        came = 0
        while not isinstance(event := http.next_event(), h11.Response):
            if event is not h11.NEED_DATA:
                continue  # a note before the answer; where no more comes h11 raises
            connection.settimeout(_left_s(deadline))
            if not (data := connection.recv(_MOST_BYTES)):
                raise ConnectionError("it closed the connection")
            came += len(data)
            if came > _MOST_BYTES:
                raise ValueError("too much before an answer")
            http.receive_data(data)
        return event.status_code


def _left_s(deadline: float) -> float:
    """Without any a socket would not wait at all, and say something else."""
    if (left_s := deadline - monotonic()) <= 0:
        raise TimeoutError
    return left_s
