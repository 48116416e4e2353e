"""The simulated world: it jumps from event to event; nothing ticks."""

from dovetail.worlds.simulated.cluster import NodeEvent as NodeEvent
from dovetail.worlds.simulated.cluster import SimulatedCluster as SimulatedCluster
from dovetail.worlds.simulated.stints import Interference as Interference
from dovetail.worlds.simulated.stints import Speed as Speed
