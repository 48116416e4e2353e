"""A command in a terminal of so many lines and columns."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time

from waiting import LONG_S


class Terminal:
    def __init__(self, command: list[str], lines: int = 24, columns: int = 90) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execv(command[0], command)
        self.resize(lines, columns)
        self.seen = b""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, text: str) -> None:
        deadline = time.monotonic() + LONG_S
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline, self.seen[-2000:]
            self._read(0.2)

    def _read(self, patience_s: float) -> None:
        if select.select([self.fd], [], [], patience_s)[0]:
            try:
                self.seen += os.read(self.fd, 65536)
            except OSError:  # it has ended
                time.sleep(0.01)

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def end(self, last: str = "\x1b[?1049l") -> int:
        self.until(last)
        _, status = os.waitpid(self.pid, 0)
        self.is_sane = bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)
