"""M1: carries out plans of moves.

A plan that is accepted reserves the targets for the jobs that move and the room for the job that waits, and
evicts the pods through the eviction API. Their owners create them again, and the new pods take the targets;
then the job that waits takes its room. A step that fails ends the plan: pods that are gone get their old
places back where those are free. What is reserved ends with the plan, 120 s after the last pod is gone, and
`grace-over-time` later than that at most. A move is no fault: it uses no retry, starts no cool-down and no
clock (F2), and the share of a moved job stays (F6).

What the objects tell is not remembered: whether pods are there, places taken, jobs started. So a plan that
the next leader reads (F1) goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ringwise.durations import SECOND, duration_text
from ringwise.framework.evictions.eviction import awaited_pods
from ringwise.framework.gangs.gang_count import confirmed_pods, is_placed, needed_pods
from ringwise.framework.job import Job, PlannedPlace
from ringwise.grammar import agrees, counted
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, EvictionCause, RecordJobEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.messages.move_plan import MovePlan, PlannedPod, plain_plan, read_plan
from ringwise.reasons import Reason, Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.scheduler.defragment.live_plan import (
    DONE,
    ENDED_MOVES,
    FAILED,
    MAX_PLAN,
    MOVES,
    REFUSED,
    EndedPlan,
    LivePlan,
    MovedJob,
    MoveRecords,
    MovingJob,
    MovingPod,
    place_of,
    plan_size,
)
from ringwise.scheduler.faults.detection import is_unfit
from ringwise.scheduler.faults.rescheduling import owner_key
from ringwise.scheduler.faults.successors import Successors, is_recreated, lone_pod, owner_of_pod
from ringwise.state.loads import NO_LOAD, Load, load_of
from ringwise.state.model import Pod
from ringwise.state.reservations import Reservation
from ringwise.topology.chips import chips_of, mask_of
from ringwise.topology.natural import natural_key

WHY = "moved by a plan"
#: M1: after the last evicted pod is gone.
LIMIT = 120 * SECOND
_HOUR = 3600 * SECOND
#: After this a plan that was sent has no effect.
MAX_AGE = 600 * SECOND
#: After this nobody waits for an answer any more, and the record may have forgotten how it ended.
FORGOTTEN = 24 * _HOUR
#: Characters of what the API server says about an eviction.
_LONGEST_WHY = 1000
#: Plans at a time, and ended plans that are remembered.
MAX_PLANS, MAX_ENDED = 4, 50
#: Names in one sentence.
_NAMED = 3


class Moves(Component):
    name = "moves"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: Why a job must not be moved; set by who has the view.
        self.not_movable: Callable[[Job, int], Reason | None] = lambda job, now: None
        add = context.record.add
        self.plans = add(
            RecordTable(MOVES, LivePlan, subject=lambda key, live: live.plan.job, is_valid=_is_valid)
        )
        self.ended = add(
            RecordTable(ENDED_MOVES, EndedPlan, subject=lambda key, one: one.job, droppable=lambda one: True)
        )
        self.moved = add(RecordTable("moved-jobs", MovedJob, subject=lambda key, one: one.owner))
        #: What the view shows.
        self.records = MoveRecords(self.plans, self.ended, self.moved)
        self.counts = self.records.counts
        #: By id: seen since the last turn that decided. A replica that stands by sees many.
        self._asked: dict[str, MovePlan] = {}
        #: Pods without a PodGroup that are going or gone, and whose place no new pod has.
        self._successors = Successors()
        self._told: list[RecordJobEvent] = []
        #: Evictions that were refused, with the reasons.
        self._refused: dict[str, str] = {}

    def hears(self) -> Handlers:
        return {
            ev.MovePlanSeen: lambda event, now: self._ask(event.plan),
            ev.EvictFailed: self._evict_failed,
            ie.PodLeaving: lambda event, now: self._leaves(event.pod.uid),
            ie.PodRemoved: lambda event, now: self._gone(event.uid, now),
            ie.JobSeen: lambda event, now: self._attach(event.job),
        }

    def _ask(self, plan: MovePlan) -> None:
        self._asked[plan.id] = plan
        while len(self._asked) > MAX_PLANS:
            del self._asked[next(iter(self._asked))]

    # -- what happens to pods ------------------------------------------------------------------------

    def _moving(self, uid: str) -> tuple[LivePlan, MovingJob, MovingPod] | None:
        for live in self.plans.values():
            for job in live.jobs:
                if uid in job.pods:
                    return live, job, job.pods[uid]
        return None

    def _evict_failed(self, event: ev.EvictFailed, now: int) -> None:
        if self.plans and self._moving(event.uid) is not None:
            self._refused[event.uid] = event.why[:_LONGEST_WHY] or "the API server refused it"

    def _leaves(self, uid: str) -> None:
        """Some owners create the next pod when the old one begins to terminate."""
        found = self._moving(uid) if self.plans else None
        if found is not None:
            self._successors.leave(found[1].pods_owner, found[1].owner)

    def _gone(self, uid: str, now: int) -> None:
        found = self._moving(uid) if self.plans else None
        if found is None:
            return
        live, job, pod = found
        if not pod.gone:
            pod.gone = True
            live.last_gone = now
            self.plans.touch(live.plan.id)
            self._show(live)
            if job.job == job.owner or not job.pods_owner:
                # Else a new pod has its place already.
                self._successors.leave(job.pods_owner, job.owner)

    def _attach(self, job: Job) -> None:
        """A job was seen: it is one that moves, or its only pod takes the place of one that is gone."""
        if not self.plans:
            return
        pod = next(iter(job.pods.values()), None)
        owner = owner_key(job, pod)
        alone = lone_pod(job)
        if alone is not None and alone.node is None and self._moving(alone.uid) is None:
            owner = self._successors.take(owner_of_pod(alone), owner) or owner
        for live in self.plans.values():
            for moving in live.jobs:
                if moving.owner == owner and moving.job != job.key and _is_new(job, moving):
                    self._lift(moving.job)
                    moving.job = job.key
                    self.plans.touch(live.plan.id)

    # -- time ----------------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        return min(map(self._limit, self.plans.values()), default=None)

    def _limit(self, live: LivePlan) -> int:
        """When what is reserved ends."""
        whole = live.since + LIMIT + self._configuration.settings.grace_over_time * SECOND
        if live.is_leaving:
            return whole
        return min(whole, (live.since if live.last_gone is None else live.last_gone) + LIMIT)

    def review(self, now: int) -> None:
        refused, self._refused = self._refused, {}
        for live in list(self.plans.values()):
            if not live.failed:
                why = self._why_refused(live, refused) or self._problem(live)
                if why:
                    self._fail(live, why, now)
                elif self._is_complete(live) and self._has_started(live):
                    self._end(live, DONE, "", now)
                elif self._limit(live) <= now:
                    self._fail(live, self._why_late(live, now), now)
            if live.failed and (self._limit(live) <= now or not any(self._open_places(live))):
                self._forget(live)
            if live.plan.id in self.plans:
                self._reserve_all(live)

    def act(self, now: int) -> Sequence[Command]:
        asked, self._asked = self._asked, {}
        for plan in asked.values():
            if plan.id in self.plans or plan.id in self.ended:
                continue
            age = now - plan.made
            if abs(age) <= MAX_AGE:
                self._consider(plan, now)
            elif age < FORGOTTEN:
                # Whoever reads the objects of a cluster finds plans that were carried out long ago.
                self._refuse(plan, _why_not_in_time(age), now)
        told, self._told = self._told, []
        return [*told, *self._evictions()]

    # -- a plan begins -------------------------------------------------------------------------------

    def _consider(self, plan: MovePlan, now: int) -> None:
        try:
            live, why = self._read(plan, now)
        except KeyError as error:
            # Of an object or a resource that it names.
            live, why = None, f"nothing is known of {error.args[0]}"
        if live is None:
            self._refuse(plan, why, now)
            return
        self.plans[plan.id] = live
        self.counts.accepted += 1
        self._show(live)
        for job in live.jobs:
            chips = sum(pod.target.chips.bit_count() for pod in job.pods.values())
            owner = job.pods_owner or job.owner
            before = self.moved.get(f"{owner}@{now}")
            chips += 0 if before is None else before.chips
            self.moved[f"{owner}@{now}"] = MovedJob(owner, now, chips)
        kept = max(_HOUR, self._configuration.settings.move_again_after * SECOND)
        for key in [key for key, one in self.moved.items() if one.at <= now - kept]:
            del self.moved[key]
        self._reserve_all(live)
        for moving in live.jobs:
            message = f"{_moves_text(moving)}, so that {self._name(plan.job)} can start"
            self._told.append(RecordJobEvent.about(self._book.jobs[moving.job], EventReason.MOVING, message))
        waiting = self._book.jobs[plan.job]
        moved = _named(map(self._name, plan.moved_jobs))
        message = f"{moved} {agrees(len(live.jobs), 'moves', 'move')} so that it can start"
        self._told.append(RecordJobEvent.about(waiting, EventReason.MOVING, message))

    def _refuse(self, plan: MovePlan, why: str, now: int) -> None:
        self._note(plan, REFUSED, why, now)
        self.counts.failed += 1
        waiting = self._book.jobs.get(plan.job)
        if waiting is not None:
            message = f"no job is moved for it: {why}"
            self._told.append(RecordJobEvent.about(waiting, EventReason.MOVE_FAILED, message, warning=True))

    def _read(self, plan: MovePlan, now: int) -> tuple[LivePlan | None, str]:
        """The plan, if it still holds; else why it does not."""
        if not plan.moves:
            return None, "the plan moves no job"
        if len(self.plans) >= MAX_PLANS:
            return None, f"{counted(self.plans, 'plan')} are carried out already"
        waiting = self._book.jobs.get(plan.job)
        if waiting is None or not self._book.has_pending(waiting):
            return None, f"{self._name(plan.job)} does not wait any more"
        reserved = self._reservations.of(plan.job)
        if reserved is not None and reserved.evicting and awaited_pods(self._state, reserved):
            return None, f"pods are evicted already so that {self._name(plan.job)} can start"
        busy = {job for live in self.plans.values() for job in (live.plan.job, *_keys(live))}
        if busy & {plan.job, *plan.moved_jobs}:
            return None, "another plan moves the same jobs"
        live = LivePlan(plan, now, "")
        by_name = {pod.name: pod for pod in waiting.in_order}
        for room in plan.room:
            asking = by_name.get(room.name.rpartition("/")[2])
            if asking is None or asking.cls.chips != len(room.chips):
                return None, f"{self._name(plan.job)} has no pod {room.name} any more"
            live.resource = live.resource or asking.cls.resource or ""
            before = live.room_loads.get(room.node, NO_LOAD)
            live.room_loads[room.node] = before + load_of((asking.cls,))
        why = next(
            (why for move in plan.moves if (why := self._add(live, move.job, move.pods, move.old, now))), ""
        )
        why = why or self._why_not_free(live)
        if not why and plan_size(plan) > MAX_PLAN:
            why = "it is too large for the record that the next leader reads"
        return (None, why) if why else (live, "")

    def _add(
        self,
        live: LivePlan,
        key: str,
        targets: Sequence[PlannedPod],
        old: Sequence[PlannedPod],
        now: int,
    ) -> str:
        """Add a move; why it cannot be made, empty if it can."""
        job = self._book.jobs.get(key)
        if job is None:
            return f"{key} is gone"
        reason = self.not_movable(job, now)
        if reason is not None:
            return reason.message
        staying = None if job.has_independent_pods else self._staying(job, {pod.uid for pod in targets})
        if staying is not None:
            return f"{staying.key} is of a gang that would move without it"
        for target, place in zip(targets, old, strict=True):
            record = self._state.pods.get(target.uid)
            if record is None or target.uid not in job.pods:
                return f"{target.name} is gone"
            pod = record.pod
            here = self._state.names[record.node] if record.node >= 0 else ""
            if pod.deleting or not pod.live or (here, record.chips) != (place.node, mask_of(place.chips)):
                return f"{target.name} is not where it was"
            if pod.cls.chips != len(target.chips):
                return f"{target.name} asks for {counted(pod.cls.chips, 'chip')}"
            if not is_recreated(job, pod):
                return f"nothing creates {target.name} again"
            owner = owner_key(job, pod)
            moving = next((one for one in live.jobs if one.owner == owner), None)
            if moving is None:
                alone = owner_of_pod(pod) if pod.group is None else ""
                moving = MovingJob(owner, key, pod.cls.resource or "", alone)
                live.jobs.append(moving)
            moving.pods[target.uid] = MovingPod(place_of(target), place_of(place), load_of((pod.cls,)))
        return ""

    def _staying(self, job: Job, going: Container[str]) -> Pod | None:
        """A pod that holds resources and would not go: the job may have grown since the plan was found."""
        for uid, pod in job.pods.items():
            placed = pod.live and self._state.pods[uid].node >= 0
            if placed and uid not in going and not pod.cls.best_effort:
                return pod
        return None

    def _why_not_free(self, live: LivePlan) -> str:
        """Every place is free or will be, and kept for nobody else; no two overlap."""
        taken: dict[tuple[str, str], int] = {}
        wanted = [(live.plan.job, live.resource, place_of(pod)) for pod in live.plan.room if pod.chips]
        wanted += [
            (job.job, job.resource, pod.target) for job, _, pod in live.moving_pods() if pod.target.chips
        ]
        for key, resource, place in wanted:
            if taken.get((resource, place.node), 0) & place.chips:
                return f"two pods would get the same chips of {place.node}"
            taken[resource, place.node] = taken.get((resource, place.node), 0) | place.chips
            why = self._why_lost(live, key, resource, place)
            reserved = (
                self._state.fleets[resource].reserved[self._state.node_id[place.node]] if not why else 0
            )
            # What is kept for the job that waits is kept where it gets room from now on.
            for owner in {key, live.plan.job} if not why else ():
                own = self._reservations.of(owner)
                if own is not None and own.resource == resource:
                    reserved &= ~own.chips.get(self._state.node_id[place.node], 0)
            if why or reserved & place.chips:
                return why or f"chips of {place.node} are kept for another job"
        return ""

    def _evictions(self) -> Iterator[Command]:
        """Of pods that have to go and do not yet. The next leader asks again: it does not know for whom."""
        for live in self.plans.values():
            if live.failed:
                continue
            for _, uid, _ in live.moving_pods():
                record, job = self._state.pods.get(uid), self._book.job_of(uid)
                if record is None or job is None or record.pod.deleting or uid in live.sent:
                    continue
                live.sent.add(uid)
                why = f"moved so that {self._name(live.plan.job)} can start"
                yield self._assumed.evict_together(job, uid, why, EvictionCause.MOVE, live.plan.job)

    # -- a plan goes on --------------------------------------------------------------------------------

    def _why_refused(self, live: LivePlan, refused: Mapping[str, str]) -> str:
        for _, uid, pod in live.moving_pods():
            if uid in refused:
                return f"{pod.target.pod} could not be evicted: {refused[uid]}"
        return ""

    def _problem(self, live: LivePlan) -> str:
        """Why the plan cannot go on; empty if it can."""
        waiting = self._book.jobs.get(live.plan.job)
        if waiting is None or self._book.is_over(waiting):
            return f"{live.plan.job} is gone"
        for moving in live.jobs:
            job = self._book.jobs.get(moving.job)
            if (job is None and not moving.pods_owner) or (job is not None and self._book.is_over(job)):
                return f"{self._name(moving.job)} is gone"
            for uid, pod in moving.pods.items():
                record = self._state.pods.get(uid)
                if record is not None and not record.pod.live and not record.pod.deleting:
                    return f"{pod.target.pod} has ended"
        for moving, _, place in self._open_places(live):
            why = self._why_lost(live, moving.job, moving.resource, place)
            if why:
                return why
        if not self._has_started(live):
            for room in live.plan.room:
                why = self._why_lost(live, live.plan.job, live.resource, place_of(room))
                if why:
                    return why
        return ""

    def _why_lost(self, live: LivePlan, key: str, resource: str, place: PlannedPlace) -> str:
        """Why the place cannot be had; pods that the plan moves away do not count."""
        number = self._state.node_id.get(place.node)
        node = None if number is None else self._state.nodes[number]
        if number is None or node is None or node.unschedulable:
            return f"{place.node} takes no pods"
        if is_unfit(self._state, resource, place.node, place.chips):
            return f"chips of {place.node} that were planned cannot be used"
        leaving = {uid for _, uid, _ in live.moving_pods()}
        for uid in self._state.pods_on[number]:
            record = self._state.pods[uid]
            if record.pod.cls.resource != resource or not record.chips & place.chips or uid in leaving:
                continue
            job = self._book.job_of(uid)
            if job is None or job.key != key:
                return f"chips of {place.node} that were planned are taken by {record.pod.key}"
        return ""

    def _why_late(self, live: LivePlan, now: int) -> str:
        there = [pod.target.pod for _, uid, pod in live.moving_pods() if not pod.gone]
        if there:
            after = duration_text(now - live.since)
            return f"{_named(there)} {agrees(len(there), 'is', 'are')} still there after {after}"
        late = sorted({self._name(job.job) for job, _, _ in self._open_places(live)}, key=natural_key)
        limit = duration_text(LIMIT)
        if late:
            owners = f"{_named(late)} {agrees(len(late), 'has', 'have')} no new pods in the planned places"
            return f"{owners} {limit} after the last one was gone: its owner did not create them in time"
        return f"{self._name(live.plan.job)} did not start within {limit}"

    def _has_started(self, live: LivePlan) -> bool:
        job = self._book.jobs.get(live.plan.job)
        return job is not None and len(confirmed_pods(self._state, job)) >= needed_pods(job)

    def _is_complete(self, live: LivePlan) -> bool:
        """Whether every pod that had to go has a successor in its place."""
        if live.is_leaving:
            return False
        for moving, _, pod in live.moving_pods():
            if pod.target.chips and not self._is_taken(moving, pod.target, confirmed=True):
                return False
        return True

    def _is_taken(self, moving: MovingJob, place: PlannedPlace, *, confirmed: bool = False) -> bool:
        """Whether a new pod of the job has the place."""
        job, number = self._book.jobs.get(moving.job), self._state.node_id.get(place.node)
        for uid in () if job is None else job.pods:
            record = self._state.pods[uid]
            if uid not in moving.pods and (record.node, record.chips) == (number, place.chips):
                return not (confirmed and record.assumed)
        return False

    def _open_places(self, live: LivePlan) -> Iterator[tuple[MovingJob, str, PlannedPlace]]:
        """Places that no new pod has; after a failure, old places of pods that went and have not moved."""
        for moving, uid, pod in live.moving_pods():
            if not pod.target.chips or self._is_taken(moving, pod.target):
                continue
            if not live.failed:
                yield moving, uid, pod.target
                continue
            record = self._state.pods.get(uid)
            if record is not None and not record.pod.deleting:
                continue
            if self._is_taken(moving, pod.old) or self._is_placed_again(moving):
                continue
            if not self._why_lost(live, moving.job, moving.resource, pod.old):
                yield moving, uid, pod.old

    def _is_placed_again(self, moving: MovingJob) -> bool:
        """Whether the job has all pods that it needs, wherever."""
        job = self._book.jobs.get(moving.job)
        if job is None:
            return False
        new = [pod for uid, pod in job.pods.items() if uid not in moving.pods]
        waiting = any(self._state.pods[pod.uid].node < 0 for pod in new)
        return not waiting and sum(is_placed(self._state, pod) for pod in new) >= needed_pods(job)

    def _fail(self, live: LivePlan, why: str, now: int) -> None:
        live.failed = why
        self.plans.touch(live.plan.id)
        self._lift(live.plan.job)
        self._end(live, FAILED, why, now)

    def _show(self, live: LivePlan) -> None:
        """What is shown of the jobs of the plan has changed."""
        self._state.changes.several_jobs((live.plan.job, *_keys(live)))

    def _end(self, live: LivePlan, outcome: str, why: str, now: int) -> None:
        plan = live.plan
        self._show(live)
        # A pod without a PodGroup came back under another name.
        self._note(plan, outcome, why, now, tuple(dict.fromkeys(job.job for job in live.jobs)))
        if outcome == DONE:
            self.counts.done += 1
            self.counts.saved += plan.saving or 0
            self.counts.spent += plan.cost
        else:
            self.counts.failed += 1
        for moving in live.jobs:
            job = self._book.jobs.get(moving.job)
            if job is None:
                continue
            if outcome == DONE:
                self._told.append(RecordJobEvent.about(job, EventReason.MOVED, _moved_text(moving)))
            else:
                message = f"the move for {self._name(plan.job)} ended: {why}"
                self._told.append(RecordJobEvent.about(job, EventReason.MOVE_FAILED, message, warning=True))
        waiting = self._book.jobs.get(plan.job)
        if waiting is not None and outcome != DONE:
            message = f"the moves for it ended: {why}"
            self._told.append(RecordJobEvent.about(waiting, EventReason.MOVE_FAILED, message, warning=True))
        elif waiting is not None:
            names = _named(map(self._name, plan.moved_jobs))
            self._told.append(
                RecordJobEvent.about(waiting, EventReason.MOVED, f"it could start because {names} moved")
            )
        if outcome == DONE:
            self._forget(live)

    def _name(self, key: str) -> str:
        """Of a job, as its user knows it."""
        job = self._book.jobs.get(key)
        return key if job is None else f"{job.namespace}/{job.name}"

    def _note(
        self, plan: MovePlan, outcome: str, why: str, now: int, moved: tuple[str, ...] | None = None
    ) -> None:
        moved = plan.moved_jobs if moved is None else moved
        names = tuple(map(self._name, moved))
        self.ended[plan.id] = EndedPlan(
            plan.id, plan.job, moved, outcome, why, now, self._name(plan.job), names
        )
        while len(self.ended) > MAX_ENDED:
            del self.ended[next(iter(self.ended))]

    def _forget(self, live: LivePlan) -> None:
        del self.plans[live.plan.id]
        self._lift(live.plan.job)
        for moving in live.jobs:
            self._lift(moving.job)
            self._successors.forget(moving.pods_owner, moving.owner)
            for key in (moving.job, moving.owner):
                job = self._book.jobs.get(key)
                if job is not None and job.places:
                    job.places = ()
                    self._job_queue.activate(key)

    # -- what is reserved ------------------------------------------------------------------------------

    def _lift(self, key: str) -> None:
        reservation = self._reservations.of(key)
        if reservation is not None and reservation.why == WHY:
            self._reservations.lift(key)
            self._triggers.add(Trigger.CHIPS_FREED)

    def _reserve_all(self, live: LivePlan) -> None:
        leaving = frozenset(uid for _, uid, pod in live.moving_pods() if not pod.gone)
        opened: dict[str, list[tuple[PlannedPlace, Load]]] = {job.job: [] for job in live.jobs}
        for moving, uid, place in self._open_places(live):
            opened[moving.job].append((place, moving.pods[uid].load))
        # First: what was kept for the waiting job before is given up for it, and others may move there.
        if live.failed or self._has_started(live):
            self._lift(live.plan.job)
        else:
            room = [(place_of(pod), NO_LOAD) for pod in live.plan.room if pod.chips]
            room += [(PlannedPlace("", node, 0), load) for node, load in live.room_loads.items()]
            self._reserve(live.plan.job, live.resource, room, leaving)
        for moving in live.jobs:
            places = opened[moving.job]
            job = self._book.jobs.get(moving.job)
            if job is not None:
                kept = tuple(place for place, _ in places)
                if job.places != kept:
                    job.places = kept
                    self._job_queue.activate(job.key)
            self._reserve(moving.job, moving.resource, places, leaving)

    def _reserve(
        self,
        key: str,
        resource: str,
        places: Iterable[tuple[PlannedPlace, Load]],
        leaving: frozenset[str],
    ) -> None:
        chips: dict[int, int] = {}
        loads: dict[int, Load] = {}
        for place, load in places:
            number = self._state.node_id.get(place.node)
            if number is None:
                continue
            if place.chips:
                chips[number] = chips.get(number, 0) | place.chips
            if load != NO_LOAD:
                loads[number] = loads.get(number, NO_LOAD) + load
        before = self._reservations.of(key)
        if not chips or resource not in self._state.fleets:
            self._lift(key)
            return
        if before is not None and before.why != WHY and before.evicting:
            # Others are evicted for it: it has what it needs.
            return
        if before is not None and before.why == WHY and before.resource == resource:
            same = before.chips == chips and before.loads == loads and before.awaited == leaving
            if same:
                return
            if any(mask & ~chips.get(node, 0) for node, mask in before.chips.items()):
                self._triggers.add(Trigger.CHIPS_FREED)
        self._reservations.make(Reservation(key, resource, chips, loads, leaving, why=WHY, lasting=True))

    # -- the next leader (F1) --------------------------------------------------------------------------

    def restore(self, record: RestoredRecord, now: int) -> None:
        """What the previous leader knew."""
        for key, live in record.of(self.plans).items():
            # No clock runs so far ahead that what is reserved could last longer than its limit.
            live.since = min(live.since, now)
            if len(self.plans) < MAX_PLANS and key not in self.plans:
                self.plans[key] = live
        self.ended.update({key: one for key, one in record.of(self.ended).items() if key not in self.ended})
        for key, moved in record.of(self.moved).items():
            # Nor so far ahead that automatic moves would rest for ever; and no move gives chips back.
            self.moved[key] = replace(moved, at=min(moved.at, now), chips=max(0, moved.chips))
        for live in self.plans.values():
            for moving, uid, pod in live.moving_pods():
                placed = self._state.pods.get(uid)
                if placed is None and not pod.gone:
                    # It went between the two leaders; how long ago is not known.
                    pod.gone = True
                    live.last_gone = now
                    self.plans.touch(live.plan.id)
                if (placed is None or placed.pod.deleting) and moving.job == moving.owner:
                    self._successors.leave(moving.pods_owner, moving.owner)
        for job in list(self._book.jobs.values()) if self.plans else ():
            self._attach(job)


def moved_as(job: Job) -> str:
    """The owner by which a job that was moved is remembered."""
    pod = next(iter(job.pods.values()), None)
    alone = owner_of_pod(pod) if pod is not None and pod.group is None else ""
    return alone or owner_key(job, pod)


def _is_valid(live: LivePlan) -> bool:
    return read_plan(plain_plan(live.plan)) == live.plan


def _is_new(job: Job, moving: MovingJob) -> bool:
    """Whether the job is another one than that which loses its pods."""
    return not any(uid in moving.pods for uid in job.pods)


def _keys(live: LivePlan) -> Iterator[str]:
    for job in live.jobs:
        yield job.job
        yield job.owner


def _named(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _NAMED
    return ", ".join(every[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _why_not_in_time(age: int) -> str:
    off = duration_text(abs(age))
    when = f"{off} ago" if age > 0 else f"{off} ahead of the scheduler's clock"
    return f"the plan was sent {when}, and one that is more than {duration_text(MAX_AGE)} off moves no job"


def _moves_text(moving: MovingJob) -> str:
    pods = list(moving.pods.values())
    parts = [f"{pod.target.pod} from {_place(pod.old)} to {_place(pod.target)}" for pod in pods[:_NAMED]]
    more = len(pods) - _NAMED
    return "it moves: " + "; ".join(parts) + (f" and {more} more" if more > 0 else "")


def _moved_text(moving: MovingJob) -> str:
    nodes = sorted({pod.target.node for pod in moving.pods.values()}, key=natural_key)
    return f"it has moved to {_named(nodes)}"


def _place(place: PlannedPlace) -> str:
    chips = ",".join(map(str, chips_of(place.chips)))
    return f"{place.node} ({chips})" if chips else place.node
