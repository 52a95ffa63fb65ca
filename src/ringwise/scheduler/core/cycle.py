"""A cycle: decide about all active jobs, with the configured actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ringwise.framework.budget import NamespaceSteps, StepBudget
from ringwise.framework.gangs.gang_placement import too_few_pods
from ringwise.framework.job import Job, gated_pods
from ringwise.framework.reasons import INTERNAL_ERROR
from ringwise.framework.registry import ActionSpec
from ringwise.framework.session import Session
from ringwise.framework.step_timer import CycleStep, StepTimer, untimed
from ringwise.messages.commands import EvictionCause
from ringwise.messages.containment import describe
from ringwise.reasons import Reason, Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Components, Context, ContextUser
from ringwise.scheduler.cache.job_queue import BackoffCause
from ringwise.scheduler.cache.sessions import SessionFactory
from ringwise.scheduler.core.bindings import Bindings
from ringwise.scheduler.core.turns import FairTurns
from ringwise.scheduler.view import History
from ringwise.state.loads import NO_LOAD, load_of
from ringwise.state.model import PodClass
from ringwise.state.reservations import Reservation


class Cycle(ContextUser):
    """Runs the actions of the configuration for all active jobs, and announces how each job is settled."""

    def __init__(
        self,
        context: Context,
        components: Components,
        sessions: SessionFactory,
        turns: FairTurns,
        bindings: Bindings,
        history: History,
    ) -> None:
        super().__init__(context)
        self._components = components
        self.sessions = sessions
        self.turns = turns
        self.bindings = bindings
        self.history = history
        self._steps = NamespaceSteps()
        #: Called for every job just before it is decided, with the state as the decision will see it.
        self.observer: Callable[[Session, Job], None] | None = None
        #: Called with every event, every job and every attempt to place one: a long turn is not a hung one.
        self.on_progress: Callable[[], None] = lambda: None
        #: Measures the cycle and its steps.
        self.timer: StepTimer = untimed

    def progress(self) -> None:
        self.turns.progress += 1
        self.on_progress()

    def run(self, now: int, *, may_reserve: bool) -> None:
        """Decide about every active job. Without new reservations, claims need not be bound first."""
        self.history.cycles += 1
        pending = self._pop_pending(now)
        try:
            with self.timer(CycleStep.CYCLE, ""):
                self._decide(pending, now, may_reserve=may_reserve)
        except Exception:
            # They are tried again after some minutes, or when something changes that their reasons name.
            self._settle_all(pending, now)
            raise

    def _decide(self, pending: Sequence[Job], now: int, *, may_reserve: bool) -> None:
        reserved_before = list(self._reservations)
        with self.timer(CycleStep.OPEN, ""):
            session = self.sessions.open(now, pending, self.observer, self.timer)
        session.may_reserve = may_reserve
        session.on_progress = self.progress
        session.may_try, session.may_go_on = self.turns.may_begin, self.turns.may_go_on
        session.budget = StepBudget(self._steps, now)
        session.budget.on_progress = self.progress
        session.announce = partial(self.bindings.bind, session)
        actions = self._configuration.current.actions
        # The last part of the limit is for the jobs that are left: other cycles, in which they come first.
        parts = len(actions) + 1
        for position, name in enumerate(actions, 1):
            action = self.sessions.registry.actions.get(name)
            if action is not None:
                self.turns.begin_phase((position - 0.5) / parts)
                session.next_phase = partial(self.turns.begin_phase, position / parts)
                self._run(action, session)
        self.turns.begin_phase(1.0)
        for component in self._components.overriding(Component.end_cycle):
            self._components.contained(component.name, component.end_cycle, session, work="end_cycle")
            # The next component does not work for the job that this one tried last.
            self.turns.end_attempt()
        untried, tried = self.turns.take_untried(pending)
        session.budget.end()
        self._steps.forget_idle(now)
        if any(self._came_free(reservation) for reservation in reserved_before):
            self._triggers.add(Trigger.CHIPS_FREED)
        if session.bound:
            self._triggers.add(Trigger.POD_PLACED)
        self._job_queue.set_retries(session.retries)
        self.history.add(session.incidents)
        self.history.plans = session.plans
        self._evict(session)
        session.close()
        for job in untried:
            if job.waiting_since is None:
                job.waiting_since = now
            self._job_queue.activate(job.key)
        self._settle_all(tried, now)
        self._note_reservations(reserved_before, now)

    def _run(self, action: ActionSpec, session: Session) -> None:
        """An action that fails outside any job costs this cycle the rest of that action, and nothing else."""
        try:
            with self.timer(CycleStep.ACTION, action.name):
                action.run(session)
        except Exception as error:
            if self._state.undo_open():
                self._book.recount()
            incident = session.contain(error, None, action.name)
            for job in session.pending:
                if job.reason is None and self._book.has_pending(job):
                    job.reason = INTERNAL_ERROR(where=incident.where, error=incident.error)

    def _evict(self, session: Session) -> None:
        for gone in session.evicted:
            by = "" if gone.beneficiary is None else gone.beneficiary.key
            record = self._state.pods[gone.pod.uid]
            if record.reserved or record.node < 0:
                # It is not bound yet: what it has is given back, and nothing has to end for that.
                self.bindings.volumes.make_room(gone.pod.uid, by, session.now)
                continue
            cause = EvictionCause.of_action(gone.why)
            command = self._assumed.evict(gone.job, gone.pod.uid, gone.why, cause, by)
            self._notify(ie.PodEvicted(command), session.now)

    def _came_free(self, before: Reservation) -> bool:
        """Whether the reservation was lifted and its owner did not take all of it."""
        if self._reservations.of(before.owner) is not None:
            return False
        held = self._state.fleets[before.resource].held
        if any(mask & ~held[node] for node, mask in before.chips.items()):
            return True
        job = self._book.jobs.get(before.owner)
        taken: dict[int, list[PodClass]] = {}
        for uid, pod in job.pods.items() if job is not None else ():
            taken.setdefault(self._state.pods[uid].node, []).append(pod.cls)
        return any(
            load.without(load_of(taken.get(node, ()))) != NO_LOAD for node, load in before.loads.items()
        )

    def _note_reservations(self, before: Sequence[Reservation], now: int) -> None:
        owners = {reservation.owner for reservation in before}
        changed = owners.symmetric_difference(reservation.owner for reservation in self._reservations)
        for job in self._book.existing(changed):
            self._notify(ie.ReservationChanged(job), now)

    def _settle_all(self, jobs: Sequence[Job], now: int) -> None:
        for job in jobs:
            self._containment.attempt("job", job.key, partial(self._settle, job, now), work="settle")
            self._notify(ie.JobStatusChanged(job), now)

    def _settle(self, job: Job, now: int) -> None:
        since, pending = job.waiting_since, self._book.has_pending(job)
        self._job_queue.settle(job, pending, now)
        if not pending:
            job.drop_seniority()
            if not job.pods:
                # It was admitted and its pods are being created: it still waits for capacity.
                job.waiting_since = since
            elif self.bindings.volumes.waits(job.key):
                job.waiting_since = now if since is None else since
        self._notify(ie.JobSettled(job), now)

    # -- which jobs --------------------------------------------------------------------------------

    def _pop_pending(self, now: int) -> list[Job]:
        """Return the active jobs that have pods to place, or can be admitted; the others get their reason."""
        pending: list[Job] = []
        jobs = self._book.jobs
        active = [jobs[key] for key in self._job_queue.pop_active() if key in jobs]
        chosen, later = self.turns.choose(active)
        self._job_queue.activate(*(job.key for job in later))
        self._state.changes.several_jobs([job.key for job in chosen])
        hooks = self._components.overriding(Component.may_decide)
        for job in chosen:
            try:
                if not all(component.may_decide(job, now) for component in hooks):
                    continue
                if self._is_to_decide(job, now):
                    pending.append(job)
                else:
                    self._notify(ie.JobSkipped(job), now)
                self._containment.succeeded("job", job.key, "decide")
            except Exception as error:
                self._containment.failed("job", job.key, error, work="decide")
                self._refuse(job, INTERNAL_ERROR(where="the scheduler", error=describe(error)), now)
        return pending

    def _is_to_decide(self, job: Job, now: int) -> bool:
        pending = self._book.has_pending(job)
        # A job with a pending pod is ours; of the others, whose it is has to be found out.
        if not (pending and job.pods) and not self._book.serves(job):
            placed = any(self._state.pods[uid].node >= 0 for uid in job.pods)
            job.reason = None if placed else self._book.refusal(job)
            return False
        reason = self._book.refusal(job)
        if reason is not None:
            # Once this is corrected, it does not have to wait for the backoff as well.
            self._job_queue.end_backoff(job.key, BackoffCause.BINDING)
        elif pending and self._job_queue.is_in_backoff(job.key):
            # The reason stays: its binding failed, it was too costly, a claim got no volume, or its pods
            # were not created.
            reason = job.reason
        if reason is not None:
            self._refuse(job, reason, now)
            return False
        if not pending and job.pods:
            if all(self._state.pods[uid].node >= 0 for uid in job.pods):
                # They were placed under another PodGroup, or by another scheduler.
                job.reason = None
            self._note_gates(job, now)
            self._settle(job, now)
        return pending

    def _refuse(self, job: Job, reason: Reason, now: int) -> None:
        job.reason = reason
        self._job_queue.settle(job, True, now)
        self._notify(ie.JobStatusChanged(job), now)

    def _note_gates(self, job: Job, now: int) -> None:
        """All that is left of the gang waits behind scheduling gates: that is why it does not start."""
        gated = gated_pods(job)
        if gated and not any(self._state.pods[uid].node >= 0 for uid in job.pods):
            job.reason = too_few_pods(job, len(job.pods) - gated)
            self._notify(ie.JobStatusChanged(job), now)
