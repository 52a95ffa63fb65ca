"""Publish the state of the leaf switches in `tor-share-cm` when it changed (S2; version 2.0 only)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ringwise.framework.gangs.switch_use import states_now
from ringwise.framework.job import Job
from ringwise.messages.commands import Publish
from ringwise.placement.switches.states import SwitchFacts
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.topology.switches import ResolvedTopology
from ringwise.wellknown import TOR_AFFINITY, TOR_SHARE_CONFIG_MAP, TOR_SHARE_KEY, VOLCANO_SYSTEM


class TorSharePublisher(Component):
    name = "leaf switch states"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._jobs = context.book.jobs
        self._stale = True
        self._published: str | None = None

    def handlers(self) -> Handlers:
        of_jobs = dict.fromkeys((ie.JobSeen, ie.JobChanged, ie.PodBound, ie.BindingFailed), self._job_changed)
        return {**of_jobs, **dict.fromkeys((ie.ClusterChanged, ie.StateRebuilt), self._cluster_changed)}

    def _job_changed(
        self, event: ie.JobSeen | ie.JobChanged | ie.PodBound | ie.BindingFailed, now: int
    ) -> None:
        """Pods of this job came or went."""
        if event.job.labels.get(TOR_AFFINITY):
            self._stale = True

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
        aware = [job for job in self._jobs.values() if job.labels.get(TOR_AFFINITY)]
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
