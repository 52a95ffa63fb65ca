"""The components of the scheduler, and what connects them."""

from __future__ import annotations

from ringwise.framework.registry import Registry
from ringwise.scheduler.accounting.component import Accounting
from ringwise.scheduler.cache.component import Components, Context
from ringwise.scheduler.cache.expected_starts import ExpectedStarts
from ringwise.scheduler.cache.leader_record import LeaderRecord
from ringwise.scheduler.cache.preemptions import Preemptions
from ringwise.scheduler.cache.sessions import SessionFactory
from ringwise.scheduler.core.admission_limits import AdmissionLimits
from ringwise.scheduler.core.bindings import Bindings
from ringwise.scheduler.core.cycle import Cycle
from ringwise.scheduler.core.drain_events import DrainEvents
from ringwise.scheduler.core.event_handlers import EventHandlers
from ringwise.scheduler.core.hyper_node_events import AllocatedDomains, HyperNodeEvents
from ringwise.scheduler.core.isolation_events import IsolationEvents
from ringwise.scheduler.core.job_backoff import JobBackoff
from ringwise.scheduler.core.job_claims import JobClaims
from ringwise.scheduler.core.leaf_switches import DuplicateAddresses, TorSharePublisher
from ringwise.scheduler.core.limit_waits import LimitWaits
from ringwise.scheduler.core.move_plans import MovePlans
from ringwise.scheduler.core.node_reservations import NodeReservationEvents
from ringwise.scheduler.core.object_events import NodeEvents, QueueEvents, VolumeEvents
from ringwise.scheduler.core.overruns import Overruns
from ringwise.scheduler.core.pod_events import PodEvents
from ringwise.scheduler.core.queue_discipline import QueueDiscipline
from ringwise.scheduler.core.reservation import ReservationExpiry, StarvationGuard
from ringwise.scheduler.core.reservation_records import ReservationRecords
from ringwise.scheduler.core.run_time_limits import RunTimeLimits
from ringwise.scheduler.core.status_reporter import StatusReporter
from ringwise.scheduler.core.storage_waits import StorageWaits
from ringwise.scheduler.core.turns import FairTurns
from ringwise.scheduler.core.usage_limits import NamespaceLimits, UsageLimitEvents
from ringwise.scheduler.core.volume_waits import VolumeWaits
from ringwise.scheduler.defragment.movable import not_movable, unsuitable_node
from ringwise.scheduler.defragment.moves import Moves
from ringwise.scheduler.explain.what_if import WhatIf
from ringwise.scheduler.faults.fault_job import FaultJobs
from ringwise.scheduler.faults.fault_memory import FailedVnpus, FaultTimes, LinkDownNodes
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.partial_gangs import PartialGangs
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.scheduler.faults.publisher import FaultRecordsPublisher
from ringwise.scheduler.faults.share_records import ShareRecords
from ringwise.scheduler.view import History, SchedulerView


def build_components(
    context: Context, components: Components, registry: Registry
) -> tuple[EventHandlers, Cycle, SchedulerView]:
    """Create all components, and what a turn uses of them."""
    turns = FairTurns(context)
    gangs = PartialGangs(context)
    fault_jobs = FaultJobs(context, gangs)
    previous = PreviousPlacements(context, fault_jobs)
    shares = ShareRecords(context, fault_jobs, previous)
    faults = FaultHandler(context, fault_jobs)
    fault_times = FaultTimes(context)
    moves, run_times, overruns = Moves(context), RunTimeLimits(context), Overruns(context)
    record = LeaderRecord(context, components)
    starts = ExpectedStarts(context, lambda: history.turns)
    reporter = StatusReporter(context, gangs.was_complete, starts)
    accounting, preemptions, backoff = Accounting(context), Preemptions(context), JobBackoff(context)
    sessions = SessionFactory(context, registry)
    pods = PodEvents(context)
    volumes = VolumeWaits(context, pods.undo_binding)
    history = History(
        backoffs=backoff.backoffs,
        moves=moves.records,
        accounts=accounting.totals.queues,
        preemptions=preemptions.jobs,
        refused_evictions=preemptions.refused,
        throttled=turns.throttled,
    )
    bindings = Bindings(context, volumes, history)
    tables = NodeEvents(context), QueueEvents(context), VolumeEvents(context), pods
    events = EventHandlers(context, tables, components)
    view = SchedulerView(
        context,
        faults=faults,
        previous=previous,
        record=record,
        fault_times=fault_times,
        history=history,
        what_if=WhatIf(context.state, context.book, context.usage, sessions, events.current_events, starts),
    )
    moves.not_movable = lambda job, now: not_movable(view, job, now)
    moves.unsuitable_node = lambda live, now: unsuitable_node(view, live, now)

    # In the order in which they hear, are asked and contribute.
    components.hold(
        (
            turns,
            ReservationExpiry(context),
            IsolationEvents(context),
            NodeReservationEvents(context),
            UsageLimitEvents(context),
            NamespaceLimits(context),
            bindings,
            # Before those that look for pods on faulty hardware: what is not bound yet is given back.
            volumes,
            StorageWaits(context),
            previous,
            shares,
            # Its commands (annotation, Event, eviction) come before Events and status of other jobs.
            preemptions,
            backoff,
            StarvationGuard(context),
            # It activates jobs before a burst is lent, which is done only if no job is active.
            QueueDiscipline(context),
            LimitWaits(context),
            reporter,
            ReservationRecords(context, turns),
            DrainEvents(context),
            HyperNodeEvents(context),
            DuplicateAddresses(context),
            LinkDownNodes(context),
            faults,
            FailedVnpus(context),
            fault_times,
            # Before the evictions of the plans that it begins.
            MovePlans(context, moves),
            moves,
            run_times,
            overruns,
            # After those that reschedule jobs: such a job keeps its admission.
            AdmissionLimits(context, reporter.has_lost_all, fault_jobs),
            sessions,
            starts,
            gangs,
            TorSharePublisher(context),
            AllocatedDomains(context),
            # A claim is compared when all others have settled the job.
            JobClaims(context),
            record,
            FaultRecordsPublisher(context, faults),
            accounting,
        )
    )
    return events, Cycle(context, components, sessions, turns, bindings, history), view
