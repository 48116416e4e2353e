"""Names of container images, and of the volumes and accounts of a cluster that they run with."""

from __future__ import annotations

import posixpath
import re
from typing import Final

LONGEST_IMAGE: Final = 512
_RESERVED: Final = (
    *("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr", "var"),
    *("dovetail", "dovetail-scripts", "dovetail-checkpoints"),
)

_PART: Final = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_REGISTRY: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"
_TAG: Final = r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
_DIGEST: Final = r"(?:@sha(?:256|512):[0-9a-f]{64,128})?"
_IMAGE: Final = re.compile(f"{_REGISTRY}{_PART}(?:/{_PART})*{_TAG}{_DIGEST}")


def image_trouble(name: str) -> str:
    """The reason why this is no name of an image; "" if it is one.

    Only [registry[:port]/]path[:tag][@digest] is: an option of the engine, a path of the machine or
    another transport (`oci:/…`) is not.
    """
    if len(name) > LONGEST_IMAGE:
        return f"has {len(name):,} characters; the name of an image has {LONGEST_IMAGE} at most"
    if _IMAGE.fullmatch(name) is None:
        return "is not the name of an image, such as pytorch/pytorch:2.5.1 or localhost/mine:1"
    return ""


_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
READ_ONLY: Final = ":ro"  # behind the name of a claim


def is_cluster_name(text: str) -> bool:
    """A DNS label, as names of namespaces, claims and service accounts are."""
    return _LABEL.fullmatch(text) is not None


def volume_trouble(path: str, claim: str) -> str:
    """The reason why the claim cannot be mounted there; "" if it can. A claim is all that can be
    named: no folder of a machine."""
    if not is_cluster_name(claim.removesuffix(READ_ONLY)):
        return f"{claim!r} is not the name of a volume claim, such as datasets or datasets:ro"
    is_plain = path.startswith("/") and not path.startswith("//") and path != "/"
    if not is_plain or posixpath.normpath(path) != path or ":" in path or not path.isprintable():
        return f"{path!r} is not a plain absolute path, such as /data"
    if path.partition("/")[2].partition("/")[0] in _RESERVED:
        return f"{path!r} cannot be mounted over: it belongs to the system or to Dovetail"
    return ""
