"""Who is at the two ends of a line over a network: certificates without an authority.

Each end makes a key of its own, which never leaves it, and a certificate that is signed by itself. The
other end has learnt that very certificate by a way that it trusts, and takes no other. When it was made
does not matter, as the clocks of two machines differ.
"""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dovetail.core.errors import DovetailError

_CONFIG: Final = b"[req]\ndistinguished_name = name\n[name]\n"
_WORDS: Final = (
    *("req", "-x509", "-config", "/dev/stdin", "-newkey", "ec", "-pkeyopt"),
    *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650", "-keyout", "-", "-out", "-"),
)
_NO_CHECK_TIME: Final = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, for which Python has no name
_WITHIN_S: Final = 30.0


class TlsIdentity:
    """A key and its certificate; `pem` has both, and is not for others."""

    def __init__(self, pem: bytes) -> None:
        self.pem: Final = pem
        begin, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
        body = pem[pem.index(begin) : pem.index(end) + len(end)]
        self.certificate: Final = ssl.PEM_cert_to_DER_cert(body.decode())

    def server_side(self, peer: bytes) -> ssl.SSLContext:
        """For who listens; `peer` is the only certificate that a client may have."""
        context = self._context(ssl.PROTOCOL_TLS_SERVER, peer)
        context.num_tickets = 0  # nothing comes but what is said
        return context

    def client_side(self, peer: bytes) -> ssl.SSLContext:
        return self._context(ssl.PROTOCOL_TLS_CLIENT, peer)

    def _context(self, side: int, peer: bytes) -> ssl.SSLContext:
        context = ssl.SSLContext(side)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # it is known by its key, wherever it is
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
        context.load_verify_locations(cadata=peer)
        with _in_memory(self.pem) as path:
            context.load_cert_chain(path)
        return context


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """OpenSSL takes a key from a file only: this one is on no disk, and nobody else can open it."""
    descriptor = os.memfd_create("key")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def new_identity(name: str) -> TlsIdentity:
    try:
        done = subprocess.run(
            ["openssl", *_WORDS, "-subj", f"/CN={name}"],
            input=_CONFIG,
            capture_output=True,
            check=False,
            timeout=_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DovetailError(f"no key can be made: openssl: {error}") from None
    if done.returncode:
        told = " ".join(done.stderr.decode(errors="replace").split())[-200:]
        raise DovetailError(f"no key can be made: openssl says {told}")
    return TlsIdentity(done.stdout)


def kept_identity(path: Path, name: str) -> TlsIdentity:
    """The one in that file, which is ours alone; made if there is none."""
    try:
        return TlsIdentity(path.read_bytes())
    except (FileNotFoundError, ValueError):
        made = new_identity(name)
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(made.pem)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    return made
