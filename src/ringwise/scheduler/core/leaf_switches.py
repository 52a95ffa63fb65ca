"""What is published and reported of leaf switches: their state, and addresses that several nodes have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from ringwise.framework.gangs.switch_use import states_now
from ringwise.framework.job import Job
from ringwise.messages.commands import Command, Publish, RecordNodeEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.placement.switches.states import SwitchFacts
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.topology.switches import ResolvedTopology, SwitchTopology
from ringwise.wellknown import TOR_AFFINITY, TOR_SHARE_CONFIG_MAP, TOR_SHARE_KEY, VOLCANO_SYSTEM


class TorSharePublisher(Component):
    """Publish the state of the leaf switches in `tor-share-cm` when it changed (S2; version 2.0 only)."""

    name = "leaf switch states"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._stale = True
        self._published: str | None = None

    @on_job(ie.JobSeen, ie.JobChanged, ie.PodBound, ie.BindingFailed)
    def _job_changed(self, job: Job, now: int) -> None:
        """Pods of this job came or went."""
        if job.labels.get(TOR_AFFINITY):
            self._stale = True

    @on(ie.ClusterChanged, ie.StateRebuilt)
    def _cluster_changed(self, event: object, now: int) -> None:
        self._stale = True

    def publish(self, now: int) -> list[Publish]:
        """The ConfigMap to write, where its content differs from what was written last."""
        if not self._stale:
            return []
        self._stale = False
        settings = self._configuration.settings
        if settings.nslb_version != "2.0":
            return []
        resolved = self._topology.switches(self._state)
        if resolved is None or resolved.topology.unusable is not None:
            return []
        aware = [job for job in self._book.jobs.values() if job.labels.get(TOR_AFFINITY)]
        states = states_now(aware, self._state, resolved, settings)
        content = tor_share_config(resolved, states, self._jobs_of_node(aware))
        if content == self._published:
            return []
        self._published = content
        return [Publish(VOLCANO_SYSTEM, TOR_SHARE_CONFIG_MAP, {TOR_SHARE_KEY: content})]

    def _jobs_of_node(self, jobs: list[Job]) -> dict[str, list[str]]:
        names_of: dict[str, set[str]] = {}
        for job in jobs:
            for uid, pod in job.pods.items():
                node = self._state.pods[uid].node
                if node >= 0 and pod.cls.chips:
                    names_of.setdefault(self._state.names[node], set()).add(job.name)
        return {node: sorted(names) for node, names in names_of.items()}


def tor_share_config(
    resolved: ResolvedTopology,
    states: Sequence[SwitchFacts],
    jobs_of_node: Mapping[str, Sequence[str]],
) -> str:
    """The value of `global-tor-info` (rule S2): state, health, nodes and job names of every switch."""
    content = {
        switch.ip: {
            "IsHealthy": 0 if facts.healthy else 1,
            "IsSharedTor": int(facts.state),
            "nodes": [
                {
                    "NodeIp": server.server_ip,
                    "NodeName": server.node,
                    "JobName": list(jobs_of_node.get(server.node, ())),
                }
                for server in servers
            ],
        }
        for switch, servers, facts in zip(resolved.topology.switches, resolved.nodes, states, strict=True)
    }
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


#: Nodes with one address about which events are recorded; `ringwise doctor` counts all.
_MAX_NODES = 10


class DuplicateAddresses(Component):
    """Events about nodes that report the same InternalIP as another node under a leaf switch."""

    name = "duplicate addresses"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._checked: tuple[int, SwitchTopology | None] = (0, None)
        #: Addresses with the nodes that were named in the last event.
        self._recorded: dict[str, tuple[str, ...]] = {}

    def publish(self, now: int) -> Iterator[Command]:
        version, topology = current = self._state.addresses.version, self._topology.switch_topology
        if version == self._checked[0] and topology is self._checked[1]:
            return
        self._checked = current
        switches = topology.switches if topology is not None else ()
        switch_at = {server.server_ip: switch.ip for switch in switches for server in switch.servers}
        duplicates = self._state.addresses.duplicates
        before, self._recorded = self._recorded, {}
        for address, names in duplicates.items():
            switch = switch_at.get(address)
            if switch is None:
                continue
            self._recorded[address] = names
            if before.get(address) != names:
                shown = ", ".join(names[:_MAX_NODES]) + (", ..." if len(names) > _MAX_NODES else "")
                message = (
                    f"nodes {shown} have the same InternalIP {address}; {names[0]} is the oldest and keeps "
                    f"the position under leaf switch {switch}"
                )
                for name in names[:_MAX_NODES]:
                    yield RecordNodeEvent(name, EventReason.DUPLICATE_INTERNAL_IP, message, warning=True)
