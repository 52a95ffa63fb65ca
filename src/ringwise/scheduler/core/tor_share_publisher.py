"""Publish the state of the leaf switches for others to read, when it changed (version 2.0 only)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.framework.job import Job
from ringwise.framework.switch_use import states_now
from ringwise.messages.commands import Publish
from ringwise.placement.switches.classes import LABEL
from ringwise.placement.switches.publish import TOR_SHARE_CONFIG_MAP, TOR_SHARE_KEY, tor_share_config

if TYPE_CHECKING:
    from ringwise.scheduler.core.machine import Scheduler

NAMESPACE = "volcano-system"


class SwitchNews:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._stale = True
        self._told: str | None = None

    def touch(self, job: Job | None) -> None:
        """Pods of this job came or went."""
        if job is not None and job.labels.get(LABEL):
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
        aware = [job for job in scheduler.book.jobs.values() if job.labels.get(LABEL)]
        states = states_now(aware, scheduler.state, resolved, settings)
        content = tor_share_config(resolved, states, self._jobs_of_node(aware))
        if content == self._told:
            return []
        self._told = content
        return [Publish(NAMESPACE, TOR_SHARE_CONFIG_MAP, {TOR_SHARE_KEY: content})]

    def _jobs_of_node(self, jobs: list[Job]) -> dict[str, list[str]]:
        state = self._scheduler.state
        found: dict[str, set[str]] = {}
        for job in jobs:
            for uid, pod in job.pods.items():
                node = state.pods[uid].node
                if node >= 0 and pod.cls.chips:
                    found.setdefault(state.names[node], set()).add(job.name)
        return {node: sorted(names) for node, names in found.items()}
