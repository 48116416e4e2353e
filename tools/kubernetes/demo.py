"""make demo-kubernetes: trials in pods take turns on the seats of a real cluster of two nodes."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks import digits, studies

from dovetail.client.connection import Client
from tools.kubernetes.ready import ReadyCluster, ready_cluster

SEATS_PER_NODE: Final = 2
TRIALS, EPOCHS, RULE = 12, 8, "hermes"
_SHORTER: Final = f"--examples 8000 --epochs {EPOCHS}"
_MARKS: Final = {
    "new": "·",
    "running": "▶",
    "paused": "⏸",
    "done": "✓",
    "stopped": "■",
    "failed": "✗",
}
_LOOK_EVERY_S: Final = 0.5
_LINE_EVERY_S: Final = 3.0
_LIMIT_S: Final = 600.0


def demo() -> None:
    began = time.monotonic()
    print("A study of pods on a real Kubernetes. First, a cluster on this machine:", flush=True)
    with ready_cluster(_say) as cluster:
        print(f"It is up after {time.monotonic() - began:.0f} s, with {_nodes(cluster)}.\n")
        with TemporaryDirectory(prefix="dovetail-demo-") as name:
            _show(cluster, Path(name))
        print("\nTaking everything down.", flush=True)
    print(f"Nothing is left of it. That took {time.monotonic() - began:.0f} s.")


def _say(text: str) -> None:
    print(text, flush=True)


def _nodes(cluster: ReadyCluster) -> str:
    items = cluster.api.get("/api/v1/nodes")["items"]
    told = [
        f"{own['metadata']['name']} (kubelet {own['status']['nodeInfo']['kubeletVersion']}, "
        f"{SEATS_PER_NODE} seats)"
        for own in items
    ]
    return " and ".join(told)


def _show(cluster: ReadyCluster, home: Path) -> None:
    study = _study(cluster)
    print(
        f"{TRIALS} networks learn to read digits, {EPOCHS} epochs each, one pod a trial. The rule "
        f"`{RULE}` gives the four\nseats to those that promise most; the others stand "
        "still in their containers and lose nothing.\n"
    )
    with studies.daemon(home, SEATS_PER_NODE, cluster.world) as client:
        studies.hand_in(client, study, {}, str(digits.FOLDER))
        page = _watched(client, study["name"])
        away, back = studies.switching_s(home)
    _sum_up(page, away, back)


def _study(cluster: ReadyCluster) -> dict[str, Any]:
    study = digits.described()
    run = f"{study['run']} {_SHORTER}"
    changes = {"trials": TRIALS, "steps": EPOCHS, "policy": RULE, "image": cluster.image}
    return {**study, "run": run, **changes}


def _watched(client: Client, name: str) -> Mapping[str, Any]:
    """The study is printed as it goes on. Its page once it is over."""
    said_at, drawn, until = -_LINE_EVERY_S, 0, time.monotonic() + _LIMIT_S
    while True:
        page: Mapping[str, Any] = client.get(f"/v1/studies/{name}")
        is_over = page["state"] != "open"
        if sys.stdout.isatty():
            drawn = _redraw(page, drawn)
        elif is_over or time.monotonic() - said_at >= _LINE_EVERY_S:
            said_at = time.monotonic()
            print(_line(page), flush=True)
        if is_over:
            return page
        if time.monotonic() > until:
            raise SystemExit(f"the study is not done after {_LIMIT_S:g} s: {_line(page)}")
        time.sleep(_LOOK_EVERY_S)


def _redraw(page: Mapping[str, Any], drawn: int) -> int:
    lines = [*map(_trial_line, page["trials"]), _line(page)]
    up = f"\033[{drawn}A" if drawn else ""
    sys.stdout.write(up + "".join(f"\033[2K{line}\n" for line in lines))
    sys.stdout.flush()
    return len(lines)


def _trial_line(trial: Mapping[str, Any]) -> str:
    done = len(trial["points"])
    bar = "█" * done + "░" * (EPOCHS - done)
    stints = trial["stints"]
    where = stints[-1][2] if stints and trial["state"] == "running" else ""
    best = "" if trial["best"] is None else f"{trial['best']:.4f}"
    away = f"suspended {len(stints) - 1}×" if len(stints) > 1 else ""
    mark = _MARKS[trial["state"]]
    return f"  {mark} trial {trial['number']:>2} {bar} {best:>7}  {where:<12} {away}".rstrip()


def _line(page: Mapping[str, Any]) -> str:
    best = page["best"]
    told = "nothing yet" if best is None else f"{best['value']:.4f} by trial {best['trial']}"
    epochs = sum(len(trial["points"]) for trial in page["trials"])
    return (
        f"  {page['age_s']:5.1f} s  {page['running']} run, {page['paused']} suspended, "
        f"{page['done'] + page['stopped']} over  {epochs} epochs  "
        f"{page['switches']} switches  best loss {told}"
    )


def _sum_up(
    page: Mapping[str, Any],
    away: Sequence[float],
    back: Sequence[float],
) -> None:
    if not away or not back or page["best"] is None:
        raise SystemExit(f"the study closed too early: {page['reason']}")
    print(
        f"\nPods were suspended {len(away)} times ({1000 * median(away):.0f} ms at the median) and "
        f"resumed {len(back)} times ({1000 * median(back):.0f} ms)."
    )
    best = page["best"]
    settings = ", ".join(f"{name} {_short(value)}" for name, value in best["settings"].items())
    print(f"Best: trial {best['trial']}, loss {best['value']:.4f}, with {settings}.")
    moved = max(page["trials"], key=lambda own: len(own["stints"]))
    if tuple(value for _, value, _ in moved["points"]) != _alone(moved):
        raise SystemExit(f"the curve of trial {moved['number']} is not the one that it has alone")
    print(
        f"Trial {moved['number']} was suspended {len(moved['stints']) - 1} times. Run here alone, it "
        f"has the same {len(moved['points'])} losses to the last bit."
    )


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _alone(trial: Mapping[str, Any]) -> digits.Curve:
    words = digits.command(trial["settings"], *_SHORTER.split())
    with TemporaryDirectory(prefix="dovetail-alone-") as name:
        (curve,) = digits.alone([words], Path(name))
    return curve[: len(trial["points"])]
