"""A fresh Debian 12 with a systemd of its own: made by debootstrap, booted by systemd-nspawn.

Needs root and the packages of `NEEDED`. It has this machine's network and nothing else of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

NEEDED: Final = {"debootstrap": "debootstrap", "systemd-nspawn": "systemd-container"}
PACKAGES: Final = ("ca-certificates", "dbus", "libpam-systemd", "procps", "systemd-sysv")
_CERTIFICATES: Final = Path("etc/ssl/certs/ca-certificates.crt")
_BOOT_S: Final = 120.0


def trouble() -> str:
    """Why there can be none here; "" if there can."""
    missing = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if os.geteuid() != 0:
        return "a fresh Debian needs root"
    return f"apt-get install {' '.join(missing)}" if missing else ""


def base(folder: Path) -> Path:
    """What debootstrap makes, once: two minutes, 300 MB."""
    made = folder / "debian-12"
    if not made.exists():
        part = folder / "debian-12.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        mirror = os.environ.get("DOVETAIL_DEBIAN_MIRROR", "http://deb.debian.org/debian")
        include = f"--include={','.join(PACKAGES)}"
        words = ["debootstrap", "--variant=minbase", include, "bookworm", str(part), mirror]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        part.rename(made)
    return made


class FreshDebian:
    """A copy of the base, which can be booted, used, and lose its power."""

    def __init__(self, base: Path, root: Path, wheels: Path) -> None:
        """`wheels` stand in for what is not on PyPI yet: Dovetail itself."""
        self.root, self.wheels = root, wheels
        subprocess.run(["cp", "-a", str(base), str(root)], check=True)
        shutil.copy(Path("/") / _CERTIFICATES, root / _CERTIFICATES)
        trusted = f"[global]\ncert = /{_CERTIFICATES}\nfind-links = /srv/wheels\n"
        (root / "etc/pip.conf").write_text(trusted)
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0

    def boot(self) -> None:
        words = ["systemd-nspawn", "--quiet", "--boot", f"--directory={self.root}"]
        words += ["--register=no", "--keep-unit", "--resolv-conf=copy-host", "--console=pipe"]
        words += [f"--bind-ro={self.wheels}:/srv/wheels", "--machine=fresh-debian"]
        with open(self.root.with_suffix(".boot"), "wb") as log:
            self._nspawn = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + _BOOT_S
        while not self._is_up():
            if self._nspawn.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"it does not boot; see {self.root.with_suffix('.boot')}")
            time.sleep(0.2)

    def _is_up(self) -> bool:
        self._leader = self._first_process()
        if not self._leader:
            return False
        said = self._enter("systemctl", "is-system-running").stdout.strip()
        return said in ("running", "degraded")

    def _first_process(self) -> int:
        """The one whose numbers of processes begin anew."""
        assert self._nspawn is not None
        pid = self._nspawn.pid
        ours = os.readlink("/proc/self/ns/pid")
        try:
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if os.readlink(f"/proc/{child}/ns/pid") != ours:
                    return int(child)
        except OSError:
            pass
        return 0

    def power_cut(self) -> None:
        """Every process is gone at once, without a word; its disk stays."""
        assert self._nspawn is not None
        os.kill(self._leader, 9)
        self._nspawn.wait()
        self._nspawn = None

    def off(self) -> None:
        if self._nspawn is not None:
            self.power_cut()

    def type(self, line: str, user: str = "root") -> str:
        """A line as somebody types it who has just logged in; what it prints."""
        done = self.try_to(line, user)
        if done.returncode:
            raise RuntimeError(f"{user}: {line}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def try_to(self, line: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        return self._enter("su", "--login", user, "--command", line)

    def _enter(self, *words: str) -> subprocess.CompletedProcess[str]:
        spaces = ["nsenter", f"--target={self._leader}", "-m", "-u", "-i", "-p", "--"]
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return subprocess.run(
            [*spaces, *words],
            input="y\n",  # apt-get asks
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={"PATH": path, "LANG": "C.UTF-8"},
        )


if __name__ == "__main__":
    raise SystemExit(trouble() or 0)
