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
    spec = _told_as_usual(spec)
    folder = spec.get("workdir")
    if isinstance(folder, str):
        spec = {**spec, "workdir": os.path.expanduser(folder)}
    shell = {"environment": environment(os.environ), "workdir": _here(), "umask": _umask()}
    return {"spec": spec, **shell}


def job_as_sent(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with the commit of the job's folder."""
    sent = as_sent(spec)
    commit = commit_of(os.path.join(sent["workdir"], str(sent["spec"].get("workdir") or "")))
    return sent if commit is None else {**sent, "commit": commit}


def _told_as_usual(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """As the user's own settings say, if the job does not: see `dovetail.notify.settings`."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    if "notify" in spec or not os.path.exists(os.path.join(folder, "dovetail", "config.toml")):
        return spec
    from dovetail.client.notify_settings import notify_settings

    settings = notify_settings()
    if not settings.how:
        return spec
    own = {"notify": list(settings.how), "notify_on": list(settings.on)}
    return {**spec, **{name: value for name, value in own.items() if value and name not in spec}}


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
