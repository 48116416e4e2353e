"""Where things go: for everybody on a machine, or for one user."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    unit: Path
    bash: Path
    zsh: Path
    fish: Path
    man: Path
    config: Path
    program: Path  # a link by which `dovetail` is found


def for_everybody(root: Path) -> Places:
    """Below `root`, which is / but for tests and who makes packages."""
    return Places(
        unit=root / "etc/systemd/system/dovetail.service",
        bash=root / "usr/share/bash-completion/completions/dovetail",
        zsh=root / "usr/local/share/zsh/site-functions/_dovetail",
        fish=root / "usr/share/fish/vendor_completions.d/dovetail.fish",
        man=root / "usr/local/share/man/man1",
        config=root / "etc/dovetail/config.toml",
        program=root / "usr/local/bin/dovetail",
    )


def for_user(root: Path) -> Places:
    """By the XDG folders, below the user's home; below another folder with `root`."""
    home = Path.home() if root == Path("/") else root
    config = _xdg("XDG_CONFIG_HOME", home / ".config", root)
    data = _xdg("XDG_DATA_HOME", home / ".local/share", root)
    return Places(
        unit=config / "systemd/user/dovetail.service",
        bash=data / "bash-completion/completions/dovetail",
        zsh=data / "zsh/site-functions/_dovetail",
        fish=config / "fish/completions/dovetail.fish",
        man=data / "man/man1",
        config=config / "dovetail/config.toml",
        program=home / ".local/bin/dovetail",
    )


def _xdg(name: str, usual: Path, root: Path) -> Path:
    said = os.environ.get(name)
    return Path(said) if said and root == Path("/") else usual
