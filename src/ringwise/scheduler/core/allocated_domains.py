"""Writes to PodGroups in which HyperNode their pods are, where they have a network topology (M2)."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.framework.gangs.domain_placement import placed_nodes
from ringwise.framework.job import Job
from ringwise.framework.network_topology import PLUGIN, asks_for_topology
from ringwise.messages.commands import AnnotateGroup
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.state.hyper_nodes import Forest
from ringwise.state.model import Pod
from ringwise.wellknown import JOB_ALLOCATED_HYPER_NODE


class AllocatedDomains(Component):
    """Follows from where pods are: nothing is remembered but what was written, so that it is written once.

    It is removed if no HyperNode has all pods, and if pods are pending and none has a node. Of a job
    without pods that may run it stays: its pods are about to be made again, or it has ended there.
    """

    name = "HyperNodes of jobs"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._jobs = context.book.jobs
        #: Jobs with a topology, by key, with what was written last; None: nothing since the start.
        self._written: dict[str, str | None] = {}
        self._changed: dict[str, None] = {}
        self._forest: Forest | None = None

    def handlers(self) -> Handlers:
        return {
            **dict.fromkeys((ie.JobSeen, ie.JobChanged, ie.PodBound, ie.BindingFailed), self._job_changed),
            ie.JobGone: self._job_gone,
        }

    def _job_changed(
        self, event: ie.JobSeen | ie.JobChanged | ie.PodBound | ie.BindingFailed, now: int
    ) -> None:
        job = event.job
        if asks_for_topology(job):
            self._written.setdefault(job.key, None)
            self._changed[job.key] = None

    def _job_gone(self, event: ie.JobGone, now: int) -> None:
        self._written.pop(event.job.key, None)
        self._changed.pop(event.job.key, None)

    def publish(self, now: int) -> Sequence[AnnotateGroup]:
        if not self._written or self._configuration.current.plugin(PLUGIN) is None:
            return ()
        forest = self._state.hyper_forest()
        if forest is not self._forest:
            self._forest = forest
            self._changed.update(dict.fromkeys(self._written))
        commands = []
        changed, self._changed = self._changed, {}
        for key in changed:
            job = self._jobs.get(key)
            if job is None or job.group is None or not any(map(_may_run, job.pods.values())):
                continue
            name, written = self._holding(job, forest), self._written[key]
            if written is None:
                written = job.group.annotations.get(JOB_ALLOCATED_HYPER_NODE, "")
            self._written[key] = name
            if name != written:
                commands.append(AnnotateGroup(key, {JOB_ALLOCATED_HYPER_NODE: name or None}))
        return commands

    def _holding(self, job: Job, forest: Forest) -> str:
        """The lowest HyperNode that holds all its pods; empty where there is none."""
        placed = placed_nodes(self._state, job)
        domain = forest.holding(placed) if placed else None
        return "" if domain is None else domain.name


def _may_run(pod: Pod) -> bool:
    return pod.live and not pod.deleting
