"""MovePlan objects: which of them are accepted, which one is carried out, and when they are deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ringwise.durations import SECOND, earliest
from ringwise.grammar import counted
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, Condition, DeleteFinished, SetConditions
from ringwise.messages.move_plan import (
    APPROVED,
    DONE,
    FAILED,
    FINISHED,
    NOT_CARRIED_OUT,
    REFUSED,
    REJECTED,
    RUNNING,
    WAITING,
    WAITS_FOR_APPROVAL,
    MovePlan,
)
from ringwise.scheduler.cache.component import Context
from ringwise.scheduler.cache.record_tables import RestoredRecord
from ringwise.scheduler.core.custom_resources import CustomResources, accepted
from ringwise.scheduler.defragment.live_plan import LivePlan, PlanState, Problem
from ringwise.scheduler.defragment.moves import Moves
from ringwise.topology.natural import natural_key
from ringwise.wellknown import MOVE_PLANS

#: Plans that have not finished. More are not accepted.
MAX_PLANS = 100
#: Plans that wait are checked again after this.
CHECK_INTERVAL = 60 * SECOND
_DELETED = "the MovePlan was deleted"
_TYPES = ("Progressing", "Complete", "Failed")
#: By state: which of these conditions is true, and the reasons of all of them.
_CONDITIONS = {
    WAITS_FOR_APPROVAL: ("", ("NotApproved", "NotFinished", "NotFinished")),
    WAITING: ("", ("Waiting", "NotFinished", "NotFinished")),
    RUNNING: ("Progressing", ("Moving", "NotFinished", "NotFinished")),
    DONE: ("Complete", ("Finished", "TargetStarted", "Complete")),
    FAILED: ("Failed", ("Finished", "Failed", "StepFailed")),
    REFUSED: ("Failed", ("Finished", "Failed", NOT_CARRIED_OUT)),
}


class MovePlans(CustomResources[MovePlan]):
    """One plan at a time is carried out; the others wait in the order of their creation."""

    name = "move plans"
    resource = MOVE_PLANS
    seen, gone = ev.MovePlanSeen, ev.MovePlanGone

    def __init__(self, context: Context, moves: Moves) -> None:
        # A plan that is carried out is in the record by itself; no other has an effect on the next leader.
        super().__init__(context, MovePlan, is_recorded=False)
        self._moves = moves
        #: By name: why plans that wait do not hold, and when that was found.
        self._checked: dict[str, tuple[Problem | None, int]] = {}
        #: How often the tables of the plans had changed when this was decided.
        self._changes = 0, 0
        #: Plans that can be begun, in their order.
        self._ready: list[MovePlan] = []
        self._states: dict[str, PlanState] = {}
        #: By UID: finished plans whose time is over; and the UIDs of those whose deletion was sent.
        self._over: dict[str, MovePlan] = {}
        self._deleted: set[str] = set()
        moves.records.objects, moves.records.states = self._objects, self._states

    def put(self, name: str, one: MovePlan, now: int) -> None:
        before = self._objects.get(name)
        if before == one:
            return
        super().put(name, one, now)
        if before is None or _wanted(before) != _wanted(one):
            self._checked.pop(name, None)
        if before is not None and before.uid != one.uid:
            self._written.pop(name, None)
        self._stop_without_object(name, now)

    def drop(self, name: str, now: int) -> None:
        super().drop(name, now)
        self._checked.pop(name, None)
        self._stop_without_object(name, now)

    def _kind_served(self, event: ev.KindServed, now: int) -> None:
        super()._kind_served(event, now)
        if event.resource == self.resource.kind and event.served:
            self._stop_all_without_object(now)

    def restore(self, record: RestoredRecord, now: int) -> None:
        # The plans themselves were restored before: the reverse order of the components.
        if record.takes_over and self.resource.kind not in self._state.not_served:
            self._stop_all_without_object(now)
        self._stale = True

    def _stop_all_without_object(self, now: int) -> None:
        for name in list(self._moves.plans):
            self._stop_without_object(name, now)

    def _stop_without_object(self, name: str, now: int) -> None:
        """Stop a plan that is carried out, if no approved object says so."""
        live, one = self._moves.plans.get(name), self._objects.get(name)
        if live is None:
            return
        why = ""
        if one is None or one.uid != live.plan.uid:
            why = _DELETED
        elif one.approval != APPROVED:
            why = "its approval was withdrawn"
        elif (one.job, one.room, one.moves) != (live.plan.job, live.plan.room, live.plan.moves):
            why = "the MovePlan was changed"
        if why or (one is not None and one.state in FINISHED and not live.failed):
            # In the latter case the record is older: the previous leader has said how the plan ended.
            self._moves.stop(name, why, now)

    # -- in a turn ----------------------------------------------------------------------------

    def settle(self, now: int) -> None:
        changes = self._moves.plans.changes, self._moves.ended.changes
        if changes != self._changes:
            if changes[1] != self._changes[1]:
                # What waited for the end of a plan may hold now.
                self._checked.clear()
            self._changes = changes
            self._stale = self._stale or bool(self._objects)
        super().settle(now)

    def decide(self, now: int) -> Iterator[SetConditions]:
        self._ready.clear()
        self._over.clear()
        self._states.clear()
        waiting = 0
        # Approved ones first: who may create plans and not approve them fills no place of those.
        order = sorted(
            self._objects.values(),
            key=lambda one: (one.approval != APPROVED, one.created, natural_key(one.id)),
        )
        for one in order:
            state = self._state_of(one, waiting, now)
            self._states[one.id] = state
            if state.state not in FINISHED:
                waiting += 1
            elif one.ttl is not None and state.at:
                over = state.at + one.ttl * SECOND
                if over <= now:
                    self._over[one.uid] = one
                else:
                    self._next = earliest(self._next, over)
            if state.state == WAITING and waiting <= MAX_PLANS:
                self._ready.append(one)
            if state.state in (WAITING, WAITS_FOR_APPROVAL):
                self._next = earliest(self._next, now + CHECK_INTERVAL)
            if state.state != one.state or state.state not in FINISHED:
                # Otherwise it was said, perhaps by an earlier leader.
                yield SetConditions(self.resource.kind, one.id, one.generation, _conditions(state))

    def _state_of(self, one: MovePlan, before: int, now: int) -> PlanState:
        ended, live = self._moves.ended.get(one.id), self._moves.plans.get(one.id)
        if ended is not None and ended.uid == one.uid:
            problem = (ended.reason, ended.why) if ended.outcome == REFUSED else None
            return PlanState(ended.outcome, ended.why, problem, ended.at)
        if one.state in FINISHED:
            problem = (
                (NOT_CARRIED_OUT, one.why) if one.state == REFUSED and one.approval == APPROVED else None
            )
            return PlanState(one.state, one.why, problem, one.finished)
        if live is not None and live.plan.uid == one.uid:
            pods = [pod for _, _, pod in live.moving_pods()]
            return PlanState(RUNNING, f"{sum(pod.gone for pod in pods)} of {counted(pods, 'pod')} gone")
        if one.approval == REJECTED:
            return PlanState(REFUSED, "it was rejected", None, one.finished or now)
        if before >= MAX_PLANS:
            problem = "TooManyPlans", f"more than {MAX_PLANS} plans have not finished"
        else:
            problem = self._problem(one, now)
        if one.approval != APPROVED:
            return PlanState(WAITS_FOR_APPROVAL, "", problem)
        others = next(iter(self._moves.plans), "") or (self._ready[0].id if self._ready else "")
        return PlanState(WAITING, f"waits for MovePlan {others}" if others else "", problem)

    def _problem(self, one: MovePlan, now: int) -> Problem | None:
        problem, at = self._checked.get(one.id, (None, now - CHECK_INTERVAL))
        if at + CHECK_INTERVAL <= now:
            live = self._moves.check(one, now)
            problem = None if isinstance(live, LivePlan) else live
            self._checked[one.id] = problem, now
        return problem

    def act(self, now: int) -> Sequence[Command]:
        """Begin the next plan; those that do not hold when it is their turn are refused."""
        for one in self._ready:
            if self._moves.plans:
                break
            self._moves.begin(one, now)
        return ()

    def publish(self, now: int) -> Iterator[Command]:
        # Plans began and ended in this turn.
        self.settle(now)
        yield from super().publish(now)
        for uid, one in self._over.items():
            if uid not in self._deleted:
                yield DeleteFinished(self.resource.kind, one.id, uid)
        self._deleted = set(self._over)


def _wanted(one: MovePlan) -> MovePlan:
    """A plan without what its status says."""
    return replace(one, state="", why="", finished=0)


def _conditions(state: PlanState) -> tuple[Condition, ...]:
    true, reasons = _CONDITIONS[state.state]
    others = (
        Condition(name, name == true, reason, state.message if name == (true or _TYPES[0]) else "")
        for name, reason in zip(_TYPES, reasons, strict=True)
    )
    return accepted(state.problem), *others
