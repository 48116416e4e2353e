"""python -m dovetail.worlds.kubernetes.node_agent: what a DaemonSet runs on each node."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from pathlib import Path

from dovetail.core.errors import DovetailError
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import find_access
from dovetail.worlds.kubernetes.node_agent.rounds import NodeAgent, NodeFolders


def main() -> None:
    parser = argparse.ArgumentParser(prog="dovetail node agent", description=__doc__)
    parser.add_argument("--node", default=os.environ.get("NODE_NAME", ""), help="this node's name")
    parser.add_argument("--namespace", default="dovetail-system", help="of the controller")
    parser.add_argument("--kubeconfig", default="", help="outside a pod")
    parser.add_argument("--kubelet-root", type=Path, default=Path("/var/lib/kubelet"))
    parser.add_argument("--cgroups", type=Path, default=Path("/sys/fs/cgroup"), help="of the node")
    parser.add_argument("--notes", type=Path, default=Path("/run/dovetail"), help="kept until boot")
    chosen = parser.parse_args()
    if not chosen.node:
        parser.error("give this node's name with --node, or in NODE_NAME")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        api = Api(find_access(chosen.kubeconfig))
    except DovetailError as error:
        sys.exit(str(error))
    folders = NodeFolders(chosen.kubelet_root, chosen.cgroups, chosen.notes)
    agent = NodeAgent(api, chosen.namespace, chosen.node, folders)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    agent.run()


if __name__ == "__main__":
    main()
