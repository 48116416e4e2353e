"""A job over several nodes: one run on each, and the variables by which they find each other.

What reads which, so that a script that runs elsewhere runs here:
- torchrun takes each of its options from PET_…: PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR and
  PET_MASTER_PORT;
- `torch.distributed` with `env://`, where a script is one process a node: MASTER_ADDR, MASTER_PORT,
  RANK, WORLD_SIZE;
- Lightning: MASTER_ADDR, MASTER_PORT, NODE_RANK (its number of nodes is an argument: NNODES);
- `mpirun` of Open MPI 4 and 5 and of MPICH: a file of hosts, see `_HOST_FILES`. Ranks of MPI are for
  mpirun to give: a stray PMI_RANK would make a script wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

PORT: Final = 29500  # the one that torchrun takes
_HOST_FILES: Final = (
    "HYDRA_HOST_FILE",
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
)


class Rank(NamedTuple):
    """Which of its runs one is."""

    number: int
    addresses: Sequence[str]  # of the nodes, the first one first
    port: int = PORT

    @property
    def nodes(self) -> int:
        return len(self.addresses)


ALONE: Final = Rank(0, ("localhost",))


def variables(rank: Rank, hosts: str) -> dict[str, str]:
    """None for a job on one node. `hosts` is where the world has put `host_file`."""
    if rank.nodes == 1:
        return {}
    address, port = rank.addresses[0], str(rank.port)
    number, nodes = str(rank.number), str(rank.nodes)
    return {
        "DOVETAIL_NODES": ",".join(rank.addresses),
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "NODE_RANK": number,
        "NNODES": nodes,
        "RANK": number,
        "WORLD_SIZE": nodes,
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": port,
        "PET_NODE_RANK": number,
        "PET_NNODES": nodes,
        **dict.fromkeys(_HOST_FILES, hosts),
    }


def host_file(rank: Rank) -> str:
    """One line a node, as both families of MPI read it."""
    return "".join(f"{address}\n" for address in rank.addresses)
