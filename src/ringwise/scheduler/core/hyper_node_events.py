"""Stores HyperNodes and reports what is wrong with them, and what of a topology does not count (M2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ringwise.framework.job import Job
from ringwise.framework.network_topology import (
    TOPOLOGY_IGNORED,
    asks_for_topology,
    ignores_topology,
    unread_topologies,
)
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, RecordJobEvent, SetHyperNodeStatus
from ringwise.messages.event_reasons import EventReason
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.state.hyper_nodes import Forest, Problem

#: Problems in the status of one HyperNode; `ringwise doctor` lists all.
_MAX_PROBLEMS = 5


class HyperNodeEvents(Component):
    name = "HyperNodes"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._jobs = context.book.jobs
        #: The trees that were reported last, and the status of each HyperNode.
        self._reported_forest: Forest | None = None
        self._reported: dict[str, SetHyperNodeStatus] = {}
        #: Jobs with a topology that may need a warning, and the reasons of the warnings of each.
        self._to_warn: dict[str, None] = {}
        self._warned: dict[str, set[str]] = {}

    def handlers(self) -> Handlers:
        return {
            ev.HyperNodeSeen: self._seen,
            ev.HyperNodeGone: self._gone,
            ev.ConfigurationSeen: self._configuration_seen,
            ie.JobSeen: self._job_seen,
            ie.JobGone: self._job_gone,
        }

    def current_events(self) -> Iterator[ev.Event]:
        return map(ev.HyperNodeSeen, self._state.hyper_nodes)

    def _seen(self, event: ev.HyperNodeSeen, now: int) -> None:
        if self._state.hyper_nodes.put(event.hyper_node):
            self._triggers.add(Trigger.HYPER_NODES_CHANGED)

    def _gone(self, event: ev.HyperNodeGone, now: int) -> None:
        self._reported.pop(event.name, None)
        if self._state.hyper_nodes.drop(event.name):
            self._triggers.add(Trigger.HYPER_NODES_CHANGED)

    # -- topologies of jobs -------------------------------------------------------------------

    def _job_seen(self, event: ie.JobSeen, now: int) -> None:
        if asks_for_topology(event.job):
            self._to_warn[event.job.key] = None

    def _job_gone(self, event: ie.JobGone, now: int) -> None:
        self._to_warn.pop(event.job.key, None)
        self._warned.pop(event.job.key, None)

    def _configuration_seen(self, event: ev.ConfigurationSeen, now: int) -> None:
        self._to_warn.update((key, None) for key, job in self._jobs.items() if asks_for_topology(job))

    # -- reporting ----------------------------------------------------------------------------

    def publish(self, now: int) -> Sequence[Command]:
        return [*self._warnings(), *self._statuses()]

    def _warnings(self) -> Iterator[Command]:
        if not self._to_warn:
            return
        keys, self._to_warn = self._to_warn, {}
        for key in keys:
            job = self._jobs.get(key)
            for reason, text in self._warnings_of(job) if job is not None else ():
                # Once for each reason: a tenant can write other texts as often as he likes.
                if job is not None and reason not in self._warned.setdefault(key, set()):
                    self._warned[key].add(reason)
                    yield RecordJobEvent.about(job, reason, text, warning=True)

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
