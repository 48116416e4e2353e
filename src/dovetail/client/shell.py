"""A job or study as it is sent: its description with the environment, folder and umask of this shell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from dovetail.client.git_state import commit_of
from dovetail.core.errors import BadInput

_OURS = "DOVETAIL_"  # variables that a job has because it is one
_KEPT = ("DOVETAIL_HOME",)


def as_sent(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A description with the environment, folder and umask of this shell."""
    if spec.get("profile") is not None:
        from dovetail.jobfiles.profile_table import with_options

        spec = with_options(spec)
    folder = spec.get("workdir")
    if isinstance(folder, str):
        spec = {**spec, "workdir": os.path.expanduser(folder)}
    here = _here()
    shell = {"environment": environment(os.environ), "workdir": here, "umask": _umask()}
    commit = commit_of(os.path.join(here, str(spec.get("workdir") or "")))
    return {"spec": spec, **shell, **({} if commit is None else {"commit": commit})}


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment of this shell; a job submitted by a job does not get that job's own variables."""
    return {k: v for k, v in own.items() if not k.startswith(_OURS) or k in _KEPT}


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise BadInput("the folder you are in has been removed; go to another first") from None


def _umask() -> int:
    """It can only be asked for by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found
