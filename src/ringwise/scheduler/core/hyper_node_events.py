"""Stores HyperNodes and reports what is wrong with them, and what of a topology does not count (M2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ringwise.framework.gangs.domain_placement import placed_nodes
from ringwise.framework.job import Job
from ringwise.framework.network_topology import (
    PLUGIN,
    TOPOLOGY_IGNORED,
    asks_for_topology,
    ignores_topology,
    unread_topologies,
)
from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotateGroup, Command, RecordJobEvent, SetHyperNodeStatus
from ringwise.messages.event_reasons import EventReason
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.state.hyper_nodes import Forest, Problem
from ringwise.state.model import Pod
from ringwise.wellknown import JOB_ALLOCATED_HYPER_NODE

#: Problems in the status of one HyperNode; `ringwise doctor` lists all.
_MAX_PROBLEMS = 5


class HyperNodeEvents(Component):
    name = "HyperNodes"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: The trees that were reported last, and the status of each HyperNode.
        self._reported_forest: Forest | None = None
        self._reported: dict[str, SetHyperNodeStatus] = {}
        #: Jobs with a topology that may need a warning, and the reasons of the warnings of each.
        self._to_warn: dict[str, None] = {}
        self._warned: dict[str, set[str]] = context.job_tables.add({})

    def current_events(self) -> Iterator[ev.Event]:
        return map(ev.HyperNodeSeen, self._state.hyper_nodes)

    @on(ev.HyperNodeSeen)
    def _seen(self, event: ev.HyperNodeSeen, now: int) -> None:
        if self._state.hyper_nodes.put(event.hyper_node):
            self._triggers.add(Trigger.HYPER_NODES_CHANGED)

    @on(ev.HyperNodeGone)
    def _gone(self, event: ev.HyperNodeGone, now: int) -> None:
        self._reported.pop(event.name, None)
        if self._state.hyper_nodes.drop(event.name):
            self._triggers.add(Trigger.HYPER_NODES_CHANGED)

    # -- topologies of jobs -------------------------------------------------------------------

    @on_job(ie.JobSeen)
    def _job_seen(self, job: Job, now: int) -> None:
        if asks_for_topology(job):
            self._to_warn[job.key] = None

    @on(ev.ConfigurationSeen)
    def _configuration_seen(self, event: ev.ConfigurationSeen, now: int) -> None:
        self._to_warn |= {key: None for key, job in self._book.jobs.items() if asks_for_topology(job)}

    # -- reporting ----------------------------------------------------------------------------

    def publish(self, now: int) -> Sequence[Command]:
        return [*self._warnings(), *self._statuses()]

    def _warnings(self) -> Iterator[Command]:
        if not self._to_warn:
            return
        keys, self._to_warn = self._to_warn, {}
        for job in self._book.existing(keys):
            for reason, text in self._warnings_of(job):
                # Once for each reason: a tenant can write other texts as often as he likes.
                if reason not in self._warned.setdefault(job.key, set()):
                    self._warned[job.key].add(reason)
                    yield RecordJobEvent.about(job, reason, text)

    def _warnings_of(self, job: Job) -> Iterator[tuple[EventReason, str]]:
        if ignores_topology(job, self._configuration.current):
            yield EventReason.NETWORK_TOPOLOGY_IGNORED, TOPOLOGY_IGNORED
        if unread := list(unread_topologies(job)):
            yield EventReason.NETWORK_TOPOLOGY_UNREAD, "; ".join(unread)

    def _statuses(self) -> Iterator[Command]:
        """Only what differs from what was reported last: another writer of the status is not fought."""
        forest = self._state.hyper_forest()
        if forest is self._reported_forest:
            return
        self._reported_forest = forest
        for one in self._state.hyper_nodes:
            domain = forest.domains.get(one.name)
            nodes = None if domain is None else domain.nodes.bit_count()
            status = _status(one.name, nodes, forest.problems.get(one.name, ()))
            if self._reported.get(one.name) != status:
                self._reported[one.name] = status
                yield status


def _status(name: str, nodes: int | None, problems: Sequence[Problem]) -> SetHyperNodeStatus:
    if not problems:
        return SetHyperNodeStatus(name, nodes)
    sentences = [problem.sentence for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        sentences.append(f"and {len(problems) - _MAX_PROBLEMS:,} more")
    return SetHyperNodeStatus(
        name,
        nodes,
        all(problem.mild for problem in problems),
        "".join(word.capitalize() for word in problems[0].kind.value.split("-")),
        "; ".join(sentences),
    )


class AllocatedDomains(Component):
    """Writes to PodGroups in which HyperNode their pods are, where they have a network topology (M2).

    It follows from where pods are: nothing is remembered but what was written, so that it is written once.

    It is removed if no HyperNode has all pods, and if pods are pending and none has a node. Of a job
    without pods that may run it stays: its pods are about to be made again, or it has ended there.
    """

    name = "HyperNodes of jobs"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: Jobs with a topology, by key, with what was written last; None: nothing since the start.
        self._written: dict[str, str | None] = context.job_tables.add({})
        self._changed: dict[str, None] = context.job_tables.add({})
        self._forest: Forest | None = None

    @on_job(ie.JobSeen, ie.JobChanged, ie.PodBound, ie.BindingFailed)
    def _job_changed(self, job: Job, now: int) -> None:
        if asks_for_topology(job):
            self._written.setdefault(job.key, None)
            self._changed[job.key] = None

    def publish(self, now: int) -> Iterator[AnnotateGroup]:
        if not self._written or self._configuration.current.plugin(PLUGIN) is None:
            return
        forest = self._state.hyper_forest()
        if forest is not self._forest:
            self._forest = forest
            self._changed.update(dict.fromkeys(self._written))
        changed = list(self._changed)
        self._changed.clear()
        for job in self._book.existing(changed):
            if job.group is None or not any(map(_may_run, job.pods.values())):
                continue
            name, written = self._holding(job, forest), self._written[job.key]
            if written is None:
                written = job.group.annotations.get(JOB_ALLOCATED_HYPER_NODE, "")
            self._written[job.key] = name
            if name != written:
                yield AnnotateGroup(job.key, {JOB_ALLOCATED_HYPER_NODE: name or None})

    def _holding(self, job: Job, forest: Forest) -> str:
        """The lowest HyperNode that holds all its pods; empty where there is none."""
        placed = placed_nodes(self._state, job)
        domain = forest.holding(placed) if placed else None
        return "" if domain is None else domain.name


def _may_run(pod: Pod) -> bool:
    return pod.live and not pod.deleting
