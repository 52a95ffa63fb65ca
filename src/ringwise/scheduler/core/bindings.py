"""Final allocations become bindings, immediately or once the claims of their pods are bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation
from ringwise.messages.commands import Bind
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.scheduler.core.binding_annotations import binding_annotations
from ringwise.scheduler.core.volume_waits import VolumeWaits
from ringwise.scheduler.view import History
from ringwise.wellknown import RANK_INDEX


class Bindings(Component):
    name = "bindings"

    def __init__(self, context: Context, volumes: VolumeWaits, history: History) -> None:
        super().__init__(context)
        self._volumes = volumes
        self._history = history
        #: Called during a long cycle with each batch of bindings; `take` returns them as well.
        self.on_bindings: Callable[[Sequence[Bind]], None] | None = None
        #: Bindings of this turn; they order `predicate-time`.
        self._in_turn = 0
        self._bindings: list[Bind] = []

    def hears(self) -> Handlers:
        return {ie.PodBound: self._bound}

    def _bound(self, event: ie.PodBound, now: int) -> None:
        self._history.bindings += 1
        if event.job.started is None:
            event.job.started = now

    def review(self, now: int) -> None:
        self._in_turn = 0

    def take(self) -> list[Bind]:
        """Return the bindings of the last cycle."""
        bindings, self._bindings = self._bindings, []
        return bindings

    def bind(self, session: Session, allocations: Sequence[Allocation]) -> None:
        """Bind pods of one job, or keep their nodes until their claims are bound."""
        now = session.now
        binds = [self._binding(allocation, now) for allocation in allocations]
        rules = session.claim_rules
        if rules is not None and allocations and self._must_wait(allocations):
            job = allocations[0].job
            self._volumes.hold(job, allocations, binds, rules.bind_timeout, now)
            if session.may_reserve:
                return
            self._volumes.settle_at_once(job.key)
        for allocation, bind in zip(allocations, binds, strict=True):
            self._notify(ie.PodBound(allocation.job, bind.node, bind.chips), now)
        self._bindings += binds
        if self.on_bindings is not None:
            self.on_bindings(binds)

    def awaits_claims(self, job: Job) -> bool:
        """Return whether pods of the job have their nodes and wait for their claims."""
        return self._volumes.waits(job.key)

    def undo(self, uid: str, by: str, now: int) -> None:
        """Release the node of a pod that waits for its claims, because another job needs it."""
        self._volumes.make_room(uid, by, now)

    def _must_wait(self, allocations: Sequence[Allocation]) -> bool:
        """Return whether a pod has a claim without a volume, or pods of its job wait for theirs."""
        job = allocations[0].job
        return job.has_claims and (self.awaits_claims(job) or any(one.volumes for one in allocations))

    def _binding(self, allocation: Allocation, now: int) -> Bind:
        """D1: the binding carries chips, `predicate-time` and rank in one write."""
        pod, node = allocation.pod, self._state.names[allocation.node]
        annotations = binding_annotations(self._state, allocation, now + self._in_turn)
        self._in_turn += 1
        rank = int(annotations[RANK_INDEX]) if pod.rank is None and RANK_INDEX in annotations else pod.rank
        self._assumed.bind(allocation.job, pod, pod.with_chips(allocation.chips, annotations, rank))
        stray = tuple(key for key in pod.stray if key not in annotations)
        return Bind(pod.uid, pod.namespace, pod.name, node, allocation.chips, annotations, stray)
