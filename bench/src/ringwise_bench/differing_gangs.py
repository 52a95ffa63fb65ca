"""Gangs that are placed as a whole and each pod of which names its host: what a pod costs the scheduler.

On twice as many nodes as pods, under leaf switches, in SuperPoDs and in racks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from ringwise.framework.configuration import Settings
from ringwise.messages.events import Event, TopologySeen
from ringwise.records import dataclass
from ringwise.scheduler.defaults import default_configuration
from ringwise.topology.switches import Server, make_topology
from ringwise.wellknown import (
    ASCEND910,
    GROUP_NAME,
    HOSTNAME,
    NPU,
    RA_BLOCK,
    RACK_ANNOTATION,
    SCHEDULE_POLICY,
    SP_BLOCK,
    SUPERPOD_ANNOTATION,
    TOR_AFFINITY,
    VOLCANO_SCHEDULER,
)
from ringwise_bench.hostile_objects import names_node
from ringwise_bench.object_feed import CREATED, ObjectFeed, Plain, device_report, node_body

#: Nodes of a leaf switch, of a SuperPoD, of a rack and of a block.
_SWITCH, _SUPERPOD, _RACK, _BLOCK = 32, 48, 8, 6


@dataclass(frozen=True, slots=True)
class WholeJob:
    """One of the ways in which a job is placed as a whole: the cluster, and how the job asks for it."""

    name: str
    resource: str = ASCEND910
    chips: int = 8
    settings: Settings = field(default_factory=Settings)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: What a node, by its number, says about where it is.
    place: Callable[[int], Mapping[str, str]] = lambda number: {}
    single_layer: bool = False

    def cost(self, pods: int) -> tuple[float, int]:
        """Processor time per pod of the gang, and how many of its pods got a node."""
        nodes = [f"node-{number}" for number in range(2 * pods)]
        feed = ObjectFeed(replace(default_configuration(), settings=self.settings))
        feed.deliver([*self._switches(nodes), *self._node_events(feed, nodes)])
        return feed.time_of(self._gang(feed, nodes, pods)) / pods, feed.bound

    def _switches(self, nodes: list[str]) -> list[Event]:
        """Where a job must be under one switch, half of the nodes are."""
        width = len(nodes) // 2 if self.single_layer else _SWITCH
        servers = [Server(_address(number), number % width, number % width) for number in range(len(nodes))]
        starts = range(0, len(nodes), width)
        leaves = [(f"leaf-{start // width}", servers[start : start + width]) for start in starts]
        return [TopologySeen(make_topology(leaves, width, single_layer=self.single_layer))]

    def _node_events(self, feed: ObjectFeed, nodes: list[str]) -> list[Event]:
        events: list[Event] = []
        for number, name in enumerate(nodes):
            place, address = self.place(number), _address(number)
            body = node_body(name, {HOSTNAME: name}, self.resource, self.chips, place, address)
            events += feed.put("Node", body)
            events += feed.put("ConfigMap", device_report(name, self.resource, self.chips))
        return events

    def _gang(self, feed: ObjectFeed, nodes: list[str], pods: int) -> list[Event]:
        meta: Plain = {
            "name": "gang",
            "namespace": "team",
            "uid": "group",
            "creationTimestamp": CREATED,
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
        }
        group = {"metadata": meta, "spec": {"minMember": pods}, "status": {"phase": "Inqueue"}}
        events = list(feed.put("PodGroup", group))
        for number in range(pods):
            pod = {**meta, "name": f"gang-{number}", "uid": f"pod-{number}"}
            pod["annotations"] = {**self.annotations, GROUP_NAME: "gang"}
            spec = {
                "schedulerName": VOLCANO_SCHEDULER,
                "containers": [{"name": "main", "resources": {"limits": {self.resource: self.chips}}}],
                "affinity": names_node(nodes[number]),
            }
            events += feed.put_pod({"metadata": pod, "spec": spec})
        return events


def _address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _superpod(number: int) -> dict[str, str]:
    return {SUPERPOD_ANNOTATION: str(number // _SUPERPOD)}


def _rack(number: int) -> dict[str, str]:
    return {**_superpod(number), RACK_ANNOTATION: str(number % _SUPERPOD // _RACK)}


_MODEL = {TOR_AFFINITY: "large-model-schema"}
WHOLE_JOBS = (
    WholeJob("leaf switches, version 2.0", settings=Settings(nslb_version="2.0"), labels=_MODEL),
    WholeJob("leaf switches, version 1.0", settings=Settings(nslb_version="1.0"), labels=_MODEL),
    WholeJob("one leaf switch, single layer", labels=_MODEL, single_layer=True),
    WholeJob(
        "SuperPoDs",
        chips=16,
        annotations={SCHEDULE_POLICY: "chip2-node16-sp", SP_BLOCK: str(16 * _BLOCK)},
        place=_superpod,
    ),
    WholeJob(
        "racks",
        resource=NPU,
        annotations={
            SCHEDULE_POLICY: "chip8-node8-ra64-sp",
            SP_BLOCK: str(8 * _BLOCK),
            RA_BLOCK: str(16),
        },
        place=_rack,
    ),
)
