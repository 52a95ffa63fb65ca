"""M1: carries out plans of moves.

A plan that is accepted reserves the targets for the jobs that move and the room for the job that waits, and
evicts the pods through the eviction API. Their owners create them again, and the new pods take the targets;
then the job that waits takes its room. A step that fails ends the plan: pods that are gone get their old
places back where those are free. What is reserved ends with the plan, 120 s after the last pod is gone, and
`grace-over-time` later than that at most. A move is not a fault: it uses no retry, starts no cool-down and no
clock (F2), and the share of a moved job stays (F6).

What the objects show is not stored: whether pods exist, places are taken, jobs have started. So a plan that
the next leader reads (F1) continues where it was. The MovePlan objects say which plan is started or stopped
(`move_plans.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ringwise.durations import SECOND, duration_text
from ringwise.framework.evictions.eviction import evicting_reservation
from ringwise.framework.gangs.gang_count import confirmed_pods, is_placed, needed_pods
from ringwise.framework.job import Job, PlannedPlace
from ringwise.grammar import agrees, counted, listed
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, EvictionCause, RecordJobEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.messages.move_plan import DONE, FAILED, FINISHED, REFUSED, MovePlan, PlannedMove, is_bounded
from ringwise.reasons import Reason, Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.scheduler.defragment.live_plan import (
    ENDED_MOVES,
    MAX_PLAN,
    MOVES,
    EndedPlan,
    LivePlan,
    MovedJob,
    MoveRecords,
    MovingJob,
    MovingPod,
    Problem,
    place_of,
    plan_size,
    uid_of,
)
from ringwise.scheduler.faults.detection import is_unfit
from ringwise.scheduler.faults.lost_pods import Successors, is_recreated, new_pod, owner_key, owner_of_pod
from ringwise.state.loads import NO_LOAD, Load, load_of
from ringwise.state.model import Pod
from ringwise.state.reservations import Reservation
from ringwise.topology.chips import chips_of, mask_of
from ringwise.topology.natural import natural_key

WHY = "moved by a plan"
#: M1: after the last evicted pod is gone.
LIMIT = 120 * SECOND
_HOUR = 3600 * SECOND
#: Characters of what the API server says about an eviction.
_LONGEST_WHY = 1000
#: Ended plans that are remembered.
MAX_ENDED = 50
#: Names in one sentence.
_NAMED = 3


class Moves(Component):
    name = "moves"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: Why a job must not be moved; set by who has the view.
        self.not_movable: Callable[[Job, int], Reason | None] = lambda job, now: None
        #: Which pod of a plan does not fit on its node, and why; set likewise.
        self.unsuitable_node: Callable[[LivePlan, int], str] = lambda live, now: ""
        add = context.record.add
        self.plans = add(
            RecordTable(
                MOVES,
                LivePlan,
                subject=lambda key, live: live.plan.job,
                is_valid=lambda live: is_bounded(live.plan),
            )
        )
        self.ended = add(
            RecordTable(ENDED_MOVES, EndedPlan, subject=lambda key, one: one.job, droppable=lambda one: True)
        )
        self.moved = add(RecordTable("moved-jobs", MovedJob, subject=lambda key, one: one.owner))
        #: What the view shows.
        self.records = MoveRecords(self.plans, self.ended, self.moved)
        self.counts = self.records.counts
        #: Pods without a PodGroup that are going or gone, and whose place no new pod has.
        self._successors = Successors()
        #: Returns the name of a job as its user knows it.
        self._name = context.book.name_of
        self._events: list[RecordJobEvent] = []
        #: Evictions that were refused, with the reasons.
        self._refused: dict[str, str] = {}

    # -- what happens to pods ------------------------------------------------------------------------

    def _moving(self, uid: str) -> tuple[LivePlan, MovingJob, MovingPod] | None:
        for live in self.plans.values():
            for job in live.jobs:
                if uid in job.pods:
                    return live, job, job.pods[uid]
        return None

    @on(ev.EvictFailed)
    def _evict_failed(self, event: ev.EvictFailed, now: int) -> None:
        if self._moving(event.uid) is not None:
            self._refused[event.uid] = event.why[:_LONGEST_WHY] or "the API server refused it"

    @on(ie.PodLeaving)
    def _leaves(self, event: ie.PodLeaving, now: int) -> None:
        """Some owners create the next pod when the old one begins to terminate."""
        moving = self._moving(event.pod.uid)
        if moving is not None:
            self._successors.leave(moving[1].pods_owner, moving[1].owner)

    @on(ie.PodRemoved)
    def _gone(self, event: ie.PodRemoved, now: int) -> None:
        moving = self._moving(event.uid)
        if moving is None:
            return
        live, job, pod = moving
        if not pod.gone:
            self._note_gone(live, pod, now)
            self._show(live)
            if job.job == job.owner or not job.pods_owner:
                # Else a new pod has its place already.
                self._successors.leave(job.pods_owner, job.owner)

    def _note_gone(self, live: LivePlan, pod: MovingPod, now: int) -> None:
        pod.gone = True
        live.last_gone = now
        self.plans.touch(live.plan.id)

    @on_job(ie.JobSeen)
    def _attach(self, job: Job, now: int) -> None:
        """A job was seen: it is one that moves, or its only pod takes the place of one that is gone."""
        if not self.plans:
            return
        pod = next(iter(job.pods.values()), None)
        owner = owner_key(job, pod)
        alone = new_pod(job)
        if alone is not None and self._moving(alone.uid) is None:
            owner = self._successors.take(job, owner) or owner
        for live in self.plans.values():
            for moving in live.jobs:
                if moving.owner == owner and moving.job != job.key and _is_new(job, moving):
                    self._lift(moving.job, WHY)
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
        events, self._events = self._events, []
        return [*events, *self._evictions()]

    # -- a plan begins -------------------------------------------------------------------------------

    def begin(self, plan: MovePlan, now: int) -> None:
        """Carry out a plan that still holds; of any other it is noted why it does not."""
        live = self.check(plan, now)
        if not isinstance(live, LivePlan):
            self._refuse(plan, live, now)
            return
        self.plans[plan.id] = live
        self.counts.accepted += 1
        self._show(live)
        for job in live.jobs:
            chips = sum(pod.target.chips.bit_count() for pod in job.pods.values())
            owner = job.pods_owner or job.owner
            before = self.moved.get(f"{owner}@{now}", MovedJob(owner, now, 0))
            self.moved[f"{owner}@{now}"] = replace(before, chips=before.chips + chips)
        period = max(_HOUR, self._configuration.settings.move_again_after * SECOND)
        for key in [key for key, one in self.moved.items() if one.at <= now - period]:
            del self.moved[key]
        self._reserve_all(live)
        for moving in live.jobs:
            text = f"{_moves_text(moving)}, so that {self._name(plan.job)} can start"
            self._tell(moving.job, EventReason.MOVING, text)
        moved = listed([*map(self._name, plan.moved_jobs)], _NAMED)
        text = f"{moved} {agrees(len(live.jobs), 'moves', 'move')} so that it can start"
        self._tell(plan.job, EventReason.MOVING, text)

    def stop(self, plan: str, why: str, now: int) -> None:
        """End a plan and release what it holds, also for pods that are gone; no event without `why`."""
        live = self.plans.get(plan)
        if live is not None:
            if why and not live.failed:
                self._fail(live, why, now)
            self._forget(live)

    def _refuse(self, plan: MovePlan, problem: Problem, now: int) -> None:
        why = problem[1]
        ended = EndedPlan(plan.id, plan.job, plan.moved_jobs, REFUSED, why, now, reason=problem[0])
        self._note(plan, ended)
        self.counts.failed += 1
        self._tell(plan.job, EventReason.MOVE_FAILED, f"no job is moved for it: {why}")

    def _tell(self, key: str, reason: EventReason, text: str) -> None:
        job = self._book.jobs.get(key)
        if job is not None:
            self._events.append(RecordJobEvent.about(job, reason, text))

    def check(self, plan: MovePlan, now: int) -> LivePlan | Problem:
        """Return what the plan is now, if it holds; else why it does not."""
        try:
            return self._checked(plan, now)
        except KeyError as error:
            # Of a resource that no node has.
            return "ResourceNotFound", f"nothing is known of {error.args[0]}"

    def _checked(self, plan: MovePlan, now: int) -> LivePlan | Problem:
        if not plan.moves:
            return "NoMoves", "the plan moves no job"
        waiting = self._book.jobs.get(plan.job)
        if waiting is None:
            return "TargetNotFound", f"{plan.job} is gone"
        if plan.job_uid not in ("", uid_of(waiting)):
            return "TargetReplaced", f"{self._name(plan.job)} is another one, with the UID {uid_of(waiting)}"
        if not self._book.has_pending(waiting):
            return "TargetNotPending", f"{self._name(plan.job)} no longer waits"
        if problem := self._repeated(plan):
            return problem
        if evicting_reservation(self._state, self._reservations, plan.job) is not None:
            why = f"pods are evicted already so that {self._name(plan.job)} can start"
            return "EvictionsInProgress", why
        live = LivePlan(plan, now, "")
        by_name = {pod.name: pod for pod in waiting.in_order}
        for room in plan.room:
            asking = by_name.get(room.name.rpartition("/")[2])
            if asking is None or asking.cls.chips != len(room.chips):
                return "PodNotFound", f"{self._name(plan.job)} no longer has a pod {room.name}"
            live.resource = live.resource or asking.cls.resource or ""
            before = live.room_loads.get(room.node, NO_LOAD)
            live.room_loads[room.node] = before + load_of((asking.cls,))
        for move in plan.moves:
            if problem := self._add(live, move, now):
                return problem
        if why := self._why_not_free(live):
            return "PlaceNotFree", why
        if why := self.unsuitable_node(live, now):
            return "NodeUnsuitable", why
        if plan_size(plan) > MAX_PLAN:
            return "TooLarge", "it is too large for the record that the next leader reads"
        return live

    def _repeated(self, plan: MovePlan) -> Problem | None:
        """Return what a plan says twice, or about itself, or of nodes that do not exist."""
        for node in dict.fromkeys(pod.node for pod in plan.places):
            if node not in self._state.node_id:
                return "NodeNotFound", f"node {node} not found"
        seen: set[str] = set()
        for pod in (*plan.room, *(pod for move in plan.moves for pod in move.pods)):
            if pod.name in seen:
                return "DuplicatePod", f"{pod.name} is in it twice"
            seen.add(pod.name)
        for move in plan.moves:
            if move.job == plan.job:
                return "MovesTarget", f"{self._name(plan.job)} would move for itself"
            if [(pod.node, pod.chips) for pod in move.pods] == [(pod.node, pod.chips) for pod in move.old]:
                return "SamePlace", f"{self._name(move.job)} would move to where it is"
        return None

    def _add(self, live: LivePlan, move: PlannedMove, now: int) -> Problem | None:
        """Add a move; why it cannot be made, if it cannot."""
        job = self._book.jobs.get(move.job)
        if job is None:
            return "JobNotFound", f"{move.job} is gone"
        reason = self.not_movable(job, now)
        if reason is not None:
            return "NotMovable", reason.message
        for target in move.pods:
            if target.uid not in job.pods or job.pods[target.uid].key != target.name:
                # Who approves a plan reads names.
                return "PodNotFound", f"{target.name} is gone"
        staying = None if job.has_independent_pods else self._staying(job, {pod.uid for pod in move.pods})
        if staying is not None:
            return "GangIncomplete", f"{staying.key} is of a gang that would move without it"
        for target, place in zip(move.pods, move.old, strict=True):
            record = self._state.pods[target.uid]
            pod = record.pod
            here = self._state.names[record.node] if record.node >= 0 else ""
            if pod.deleting or not pod.live or (here, record.chips) != (place.node, mask_of(place.chips)):
                return "PodMoved", f"{target.name} is not where it was"
            if pod.cls.chips != len(target.chips):
                return "ChipsDiffer", f"{target.name} requests {counted(pod.cls.chips, 'chip')}"
            if not is_recreated(job, pod):
                return "NotMovable", f"nothing creates {target.name} again"
            owner = owner_key(job, pod)
            moving = next((one for one in live.jobs if one.owner == owner), None)
            if moving is None:
                alone = owner_of_pod(pod) if pod.group is None else ""
                moving = MovingJob(owner, move.job, pod.cls.resource or "", alone)
                live.jobs.append(moving)
            moving.pods[target.uid] = MovingPod(place_of(target), place_of(place), load_of((pod.cls,)))
        return None

    def _staying(self, job: Job, going: Container[str]) -> Pod | None:
        """A pod that holds resources and would not go: the job may have grown since the plan was found."""
        for uid, pod in job.pods.items():
            placed = pod.live and self._state.pods[uid].node >= 0
            if placed and uid not in going and not pod.cls.best_effort:
                return pod
        return None

    def _why_not_free(self, live: LivePlan) -> str:
        """Every place is free or will be, and kept for no other job; no two overlap."""
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
            if not why:
                number = self._state.node_id[place.node]
                reserved = self._state.fleets[resource].reserved[number]
                # What is kept for the job that waits is kept where it gets room from now on.
                for own in map(self._reservations.of, {key, live.plan.job}):
                    if own is not None and own.resource == resource:
                        reserved &= ~own.chips.get(number, 0)
                why = f"chips of {place.node} are reserved for another job" if reserved & place.chips else ""
            if why:
                return f"{place.pod} does not fit on {place.node}: {why}"
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

    # -- continue a plan -------------------------------------------------------------------------------

    def _why_refused(self, live: LivePlan, refused: Mapping[str, str]) -> str:
        for _, uid, pod in live.moving_pods():
            if uid in refused:
                return f"{pod.target.pod} could not be evicted: {refused[uid]}"
        return ""

    def _problem(self, live: LivePlan) -> str:
        """Return why the plan cannot continue; empty if it can."""
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
        places = [(moving.job, moving.resource, place) for moving, _, place in self._open_places(live)]
        if not self._has_started(live):
            places += [(live.plan.job, live.resource, place_of(room)) for room in live.plan.room]
        return next(filter(None, (self._why_lost(live, *one) for one in places)), "")

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
            return f"{listed(there, _NAMED)} {agrees(len(there), 'is', 'are')} still there after {after}"
        late = sorted({self._name(job.job) for job, _, _ in self._open_places(live)}, key=natural_key)
        limit = duration_text(LIMIT)
        if late:
            owners = (
                f"{listed(late, _NAMED)} {agrees(len(late), 'has', 'have')} no new pods in the planned places"
            )
            return f"{owners} {limit} after the last one was gone: its owner did not create them in time"
        return f"{self._name(live.plan.job)} did not start within {limit}"

    def _has_started(self, live: LivePlan) -> bool:
        job = self._book.jobs.get(live.plan.job)
        return job is not None and len(confirmed_pods(self._state, job)) >= needed_pods(job)

    def _is_complete(self, live: LivePlan) -> bool:
        """Whether every pod that had to go has a successor in its place."""
        return not live.is_leaving and all(
            not pod.target.chips or self._is_taken(moving, pod.target, confirmed=True)
            for moving, _, pod in live.moving_pods()
        )

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
        self._lift(live.plan.job, WHY)
        self._end(live, FAILED, why, now)

    def _show(self, live: LivePlan) -> None:
        """What is shown of the jobs of the plan has changed."""
        self._state.changes.several_jobs((live.plan.job, *_keys(live)))

    def _end(self, live: LivePlan, outcome: str, why: str, now: int) -> None:
        plan = live.plan
        self._show(live)
        # A pod without a PodGroup came back under another name.
        moved = tuple(dict.fromkeys(job.job for job in live.jobs))
        self._note(plan, EndedPlan(plan.id, plan.job, moved, outcome, why, now))
        if outcome != DONE:
            self.counts.failed += 1
            for moving in live.jobs:
                text = f"the move for {self._name(plan.job)} ended: {why}"
                self._tell(moving.job, EventReason.MOVE_FAILED, text)
            self._tell(plan.job, EventReason.MOVE_FAILED, f"the moves for it ended: {why}")
            return
        self.counts.done += 1
        self.counts.saved += plan.saving or 0
        self.counts.spent += plan.cost
        for moving in live.jobs:
            self._tell(moving.job, EventReason.MOVED, _moved_text(moving))
        names = listed([*map(self._name, plan.moved_jobs)], _NAMED)
        self._tell(plan.job, EventReason.MOVED, f"it could start because {names} moved")
        self._forget(live)

    def _note(self, plan: MovePlan, ended: EndedPlan) -> None:
        names = tuple(map(self._name, ended.moved))
        self.ended.pop(plan.id)
        self.ended[plan.id] = replace(ended, name=self._name(plan.job), moved_names=names, uid=plan.uid)
        # A plan whose conditions do not say yet how it ended would be begun again.
        said = [key for key, one in self.ended.items() if self._is_said(one)]
        for key in said[: max(0, len(self.ended) - MAX_ENDED)]:
            del self.ended[key]

    def _is_said(self, ended: EndedPlan) -> bool:
        one = self.records.objects.get(ended.id)
        return one is None or one.uid != ended.uid or one.state in FINISHED

    def _forget(self, live: LivePlan) -> None:
        del self.plans[live.plan.id]
        self._lift(live.plan.job, WHY)
        for moving in live.jobs:
            self._lift(moving.job, WHY)
            self._successors.forget(moving.pods_owner, moving.owner)
            for job in self._book.existing((moving.job, moving.owner)):
                if job.places:
                    job.places = ()
                    self._job_queue.activate(job.key)

    # -- what is reserved ------------------------------------------------------------------------------

    def _reserve_all(self, live: LivePlan) -> None:
        leaving = frozenset(uid for _, uid, pod in live.moving_pods() if not pod.gone)
        opened = defaultdict[str, list[tuple[PlannedPlace, Load]]](list)
        for moving, uid, place in self._open_places(live):
            opened[moving.job].append((place, moving.pods[uid].load))
        # First: the previous reservation of the pending job is released, and others may move there.
        if live.failed or self._has_started(live):
            self._lift(live.plan.job, WHY)
        else:
            room = [(place_of(pod), NO_LOAD) for pod in live.plan.room if pod.chips]
            room += [(PlannedPlace("", node, 0), load) for node, load in live.room_loads.items()]
            self._reserve(live.plan.job, live.resource, room, leaving)
        for moving in live.jobs:
            places = opened[moving.job]
            job = self._book.jobs.get(moving.job)
            if job is not None:
                nodes = tuple(place for place, _ in places)
                if job.places != nodes:
                    job.places = nodes
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
            self._lift(key, WHY)
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
            if not self.plans:
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
                    self._note_gone(live, pod, now)
                if (placed is None or placed.pod.deleting) and moving.job == moving.owner:
                    self._successors.leave(moving.pods_owner, moving.owner)
        for job in list(self._book.jobs.values()) if self.plans else ():
            self._attach(job, now)


def moved_as(job: Job) -> str:
    """The owner by which a job that was moved is remembered."""
    pod = next(iter(job.pods.values()), None)
    alone = owner_of_pod(pod) if pod is not None and pod.group is None else ""
    return alone or owner_key(job, pod)


def _is_new(job: Job, moving: MovingJob) -> bool:
    """Whether the job is another one than that which loses its pods."""
    return not any(uid in moving.pods for uid in job.pods)


def _keys(live: LivePlan) -> Iterator[str]:
    for job in live.jobs:
        yield job.job
        yield job.owner


def _moves_text(moving: MovingJob) -> str:
    pods = moving.pods.values()
    parts = [f"{pod.target.pod} from {_place(pod.old)} to {_place(pod.target)}" for pod in pods]
    return "it moves: " + listed(parts, _NAMED, "; ")


def _moved_text(moving: MovingJob) -> str:
    nodes = sorted({pod.target.node for pod in moving.pods.values()}, key=natural_key)
    return f"it has moved to {listed(nodes, _NAMED)}"


def _place(place: PlannedPlace) -> str:
    chips = ",".join(map(str, chips_of(place.chips)))
    return f"{place.node} ({chips})" if chips else place.node
