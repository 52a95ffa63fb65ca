"""Planning on a tree of HyperNodes beside leaf switches: the same nodes and pods, by what the job asks for.

Four tiers: leaves of 32 nodes, which are the leaf switches, 16 of those, 4 of these, and all. What is timed
is a cycle's attempt to place the job: its session, the choice of nodes and chips, and giving them back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ringwise.framework.configuration import Configuration, Settings, Tier
from ringwise.framework.gangs.gang_placement import place_gang
from ringwise.framework.job import Job
from ringwise.framework.network_topology import PLUGIN
from ringwise.framework.session import Session
from ringwise.framework.topology_cache import TopologyCache
from ringwise.framework.usage import ResourceUsage
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.cluster import ClusterState
from ringwise.state.model import (
    HyperNode,
    HyperNodeMember,
    NetworkTopology,
    Node,
    Pod,
    PodClass,
    PodGroup,
    Queue,
)
from ringwise.state.reservations import Reservations
from ringwise.topology.switches import Server, make_topology
from ringwise.wellknown import ASCEND910, TOR_AFFINITY

WIDTH = 32
#: Leaves of a HyperNode of tier 2, and of those in one of tier 3.
_LEAVES, _PARTS = 16, 4
_CHIPS = 8
_PLUGINS = ("gang", "topology910", "predicates", "nodeorder", "binpack", PLUGIN)


class SwitchCluster:
    """A cluster with leaf switches that are HyperNodes, too, and so many free nodes in each."""

    def __init__(self, free: Sequence[int]) -> None:
        self._state = ClusterState()
        self._usage = ResourceUsage()
        self._topology = TopologyCache(shipped_catalog())
        self._jobs: dict[str, Job] = {}
        switches = []
        for leaf, width in enumerate(free):
            servers = []
            for place in range(WIDTH):
                address = f"10.{leaf >> 8}.{leaf & 255}.{place}"
                servers.append(Server(address, place, place))
                self._node(f"node-{leaf}-{place}", address, place >= width)
            switches.append((f"leaf-{leaf}", servers))
        self._topology.set_topology(make_topology(switches, WIDTH), None)
        for one in _tree(len(free)):
            self._state.hyper_nodes.put(one)

    def _node(self, name: str, address: str, busy: bool) -> None:
        chips = {ASCEND910: _CHIPS}
        number = self._state.put_node(
            Node(
                name,
                internal_ip=address,
                cpu_milli=192_000,
                memory=1 << 40,
                max_pods=110,
                chips_allocatable=chips,
                chips_capacity=chips,
            )
        )
        if busy:
            pod = Pod(f"busy-{number}", "default", f"busy-{number}", PodClass(ASCEND910, _CHIPS))
            pod.node, pod.phase, pod.holds = name, "Running", tuple(range(_CHIPS))
            self._state.put_pod(pod)

    def submit(self, name: str, pods: int, *, switches: bool) -> Callable[[], None]:
        """A job that waits; returns an attempt to place it."""
        labels = {TOR_AFFINITY: "large-model-schema"} if switches else {}
        topology = None if switches else NetworkTopology(highest_tier=4)
        group = PodGroup("default", name, min_member=pods, labels=labels, topology=topology)
        job = Job(group.key, "default", name, group=group, min_available=pods, labels=labels)
        cls = PodClass(ASCEND910, _CHIPS, cpu_milli=24_000, memory=64 << 30)
        for number in range(pods):
            pod = Pod(f"{name}-{number}", "default", f"{name}-{number}", cls, group=name, labels=labels)
            self._state.put_pod(pod)
            job.pods[pod.uid] = pod
        self._jobs[job.key] = job
        return lambda: self._attempt(job)

    def _attempt(self, job: Job) -> None:
        tiers = (Tier(tuple(BUILT_IN.plugins[name].option() for name in _PLUGINS)),)
        session = Session(
            state=self._state,
            reservations=Reservations(self._state),
            jobs=self._jobs,
            queues={"default": Queue("default")},
            usage=self._usage,
            topology=self._topology,
            configuration=Configuration(("allocate",), tiers, Settings(nslb_version="2.0")),
            now=0,
            pending=[job],
        )
        BUILT_IN.open_plugins(session)
        refused = session.job_valid(job)
        statement = session.statement()
        try:
            refused = refused or place_gang(session, job, statement)
        finally:
            statement.discard()
        if refused is not None or len(statement.allocations) != len(job.pods):
            raise RuntimeError(f"{len(job.pods)} pods must fit: {refused}")


def _tree(leaves: int) -> list[HyperNode]:
    lowest = [
        HyperNode(
            f"leaf-{leaf}", 1, tuple(HyperNodeMember(name=f"node-{leaf}-{place}") for place in range(WIDTH))
        )
        for leaf in range(leaves)
    ]
    parts = _above("part", 2, lowest, _LEAVES)
    halls = _above("hall", 3, parts, _PARTS)
    return [*lowest, *parts, *halls, *_above("site", 4, halls, len(halls))]


def _above(name: str, tier: int, below: Sequence[HyperNode], width: int) -> list[HyperNode]:
    return [
        HyperNode(
            f"{name}-{start // width}",
            tier,
            tuple(HyperNodeMember(True, one.name) for one in below[start : start + width]),
        )
        for start in range(0, len(below), width)
    ]
