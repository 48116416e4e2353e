"""python -m tools.kubernetes: a real cluster on this machine, to try things and for tests."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from tools.kubernetes import building, cluster, images, needs


def _up(chosen: argparse.Namespace) -> None:
    bin_folder = building.build()
    if chosen.nodes:
        needs.require()
    folder = cluster.claim(is_owned=False)
    made = cluster.Cluster(folder, bin_folder, chosen.nodes, chosen.controllers.split(","))
    try:
        made.start(partial(images.make, folder / "images") if chosen.nodes else None)
    except BaseException:
        cluster.take_down(folder)
        raise
    print(f"export KUBECONFIG={made.kubeconfig}")
    print(f"# to end it: python -m tools.kubernetes down {folder.name}")


def _down(chosen: argparse.Namespace) -> None:
    for folder in cluster.all_folders():
        if folder.name in chosen.numbers or "all" in chosen.numbers:
            cluster.take_down(folder)


def _needs(chosen: argparse.Namespace) -> None:
    print(" ".join(needs.packages()))


def _check(chosen: argparse.Namespace) -> None:
    needs.require()


def _build(chosen: argparse.Namespace) -> None:
    needs.require()
    print(building.build())


def _demo(chosen: argparse.Namespace) -> None:
    from tools.kubernetes.demo import demo

    needs.require()
    demo()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.kubernetes", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    verbs.add_parser("needs", help="name missing packages of Debian").set_defaults(do=_needs)
    verbs.add_parser("check", help="say why no cluster can start here").set_defaults(do=_check)
    verbs.add_parser("build", help="build the programs, once").set_defaults(do=_build)
    up = verbs.add_parser("up", help="start a cluster that stays until it is taken down")
    up.add_argument("--nodes", type=int, default=2, help="0: an API server alone, without root")
    up.add_argument("--controllers", default="*", help="'*,-nodelifecycle' spares made-up nodes")
    up.set_defaults(do=_up)
    down = verbs.add_parser("down", help="take clusters down and remove all that they left")
    down.add_argument("numbers", nargs="+", help="which, or all")
    down.set_defaults(do=_down)
    verbs.add_parser("demo", help="show a study of pods").set_defaults(do=_demo)
    chosen = parser.parse_args()
    try:
        chosen.do(chosen)
    except needs.Missing as trouble:
        sys.exit(str(trouble))
    except KeyboardInterrupt:  # what was started is taken down by now
        sys.exit("interrupted")


if __name__ == "__main__":
    main()
