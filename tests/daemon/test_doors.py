"""Connections are counted where they are accepted, by whose they are."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dovetail.daemon.http.access import listen_at, listen_on
from dovetail.daemon.http.connections import ConnectionLimits, Doors


@contextmanager
def doors(listener: socket.socket, files: int, admin: bool = False) -> Iterator[socket.socket]:
    """A listener behind doors that take everybody for an administrator, or nobody."""
    with Doors(ConnectionLimits(files), lambda uid: admin).listening(listener) as made:
        made.setblocking(False)
        yield made


def come(listener: socket.socket, kept: ExitStack) -> tuple[socket.socket | None, str]:
    """Connect: the daemon's side of it, or what they were told instead."""
    here = kept.enter_context(socket.socket(listener.family))
    here.settimeout(120)
    here.connect(listener.getsockname())
    try:
        there, _ = listener.accept()
    except BlockingIOError:
        return None, here.recv(4096).decode()
    return kept.enter_context(there), ""


def test_each_user_has_a_part_of_the_connections(tmp_path: Path) -> None:
    limits = ConnectionLimits(1024)
    with ExitStack() as kept, doors(listen_on(tmp_path / "socket"), 1024) as listener:
        os.rename(tmp_path / "socket", tmp_path / "socket.new")  # as it was bound
        inside = [come(listener, kept)[0] for _ in range(limits.of_user)]
        assert None not in inside
        refused, told = come(listener, kept)
        assert refused is None
        assert told.startswith("HTTP/1.1 503 ")
        assert f"too many connections: 192 are open of user {os.getuid()}, and 192 may be" in told
        assert inside[0] is not None
        inside[0].close()
        assert come(listener, kept)[0] is not None  # one has left: one may come


def test_each_address_has_a_part_and_the_network_half() -> None:
    with ExitStack() as kept, doors(listen_at("127.0.0.1:0"), 1024) as listener:
        told = [come(listener, kept)[1] for _ in range(ConnectionLimits(1024).of_address)]
        assert set(told) == {""}
        assert "96 are open from 127.0.0.1, and 96 may be" in come(listener, kept)[1]


@pytest.mark.parametrize("admin", [False, True])
def test_no_connection_gets_the_last_descriptors(tmp_path: Path, admin: bool) -> None:
    files = 400
    with ExitStack() as kept, doors(listen_on(tmp_path / "socket"), files, admin) as listener:
        os.rename(tmp_path / "socket", tmp_path / "socket.new")
        reserve = ConnectionLimits(files).reserve // (2 if admin else 1)
        while (last := kept.enter_context(open(os.devnull))).fileno() < files - reserve - 1:
            pass
        assert last.fileno() == files - reserve - 1
        assert "too many connections" in come(listener, kept)[1]


def test_who_comes_when_no_descriptor_is_left_is_told_so(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as kept, doors(listen_on(tmp_path / "socket"), 1024, True) as listener:
        os.rename(tmp_path / "socket", tmp_path / "socket.new")
        here = kept.enter_context(socket.socket(socket.AF_UNIX))
        here.connect(listener.getsockname())
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
        try:
            with pytest.raises(BlockingIOError):
                listener.accept()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert "the daemon has no descriptor left" in here.recv(4096).decode()


@pytest.mark.parametrize("files", [64, 128, 256, 1024, 4096, 1 << 20])
def test_the_parts_fit_into_the_whole(files: int) -> None:
    limits = ConnectionLimits(files)
    assert limits.reserve + limits.in_all <= files
    assert limits.reserve >= min(48, files // 2)
    assert 4 <= limits.of_address <= limits.of_user < limits.in_all
    assert limits.of_network * 2 <= limits.in_all
