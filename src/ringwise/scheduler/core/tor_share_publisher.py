"""Publish the state of the leaf switches for others to read, when it changed (version 2.0 only)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ringwise.framework.job import Job
from ringwise.framework.switch_use import states_now
from ringwise.messages.commands import Publish
from ringwise.placement.switches.states import SwitchState
from ringwise.topology.switches import ResolvedTopology
from ringwise.wellknown import TOR_AFFINITY, TOR_SHARE_CONFIG_MAP, TOR_SHARE_KEY, VOLCANO_SYSTEM

if TYPE_CHECKING:
    from ringwise.scheduler.core.machine import Scheduler


class SwitchNews:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._stale = True
        self._told: str | None = None

    def touch(self, job: Job | None) -> None:
        """Pods of this job came or went."""
        if job is not None and job.labels.get(TOR_AFFINITY):
            self._stale = True

    def touch_all(self) -> None:
        """Nodes, switches or settings changed."""
        self._stale = True

    def news(self) -> list[Publish]:
        if not self._stale:
            return []
        self._stale = False
        scheduler = self._scheduler
        settings = scheduler.configuration.settings
        if settings.nslb_version != "2.0":
            return []
        resolved = scheduler.world.switches(scheduler.state)
        if resolved is None or resolved.topology.unusable is not None:
            return []
        aware = [job for job in scheduler.book.jobs.values() if job.labels.get(TOR_AFFINITY)]
        states = states_now(aware, scheduler.state, resolved, settings)
        content = tor_share_config(resolved, states, self._jobs_of_node(aware))
        if content == self._told:
            return []
        self._told = content
        return [Publish(VOLCANO_SYSTEM, TOR_SHARE_CONFIG_MAP, {TOR_SHARE_KEY: content})]

    def _jobs_of_node(self, jobs: list[Job]) -> dict[str, list[str]]:
        state = self._scheduler.state
        found: dict[str, set[str]] = {}
        for job in jobs:
            for uid, pod in job.pods.items():
                node = state.pods[uid].node
                if node >= 0 and pod.cls.chips:
                    found.setdefault(state.names[node], set()).add(job.name)
        return {node: sorted(names) for node, names in found.items()}


def tor_share_config(
    resolved: ResolvedTopology,
    states: Sequence[SwitchState],
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
