"""Why a job waits, or sits where it sits, and what would change that."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

from ringwise.framework.gang_placement import fill, pending_pods
from ringwise.framework.job import Job
from ringwise.framework.ranks import ranks_of
from ringwise.framework.session import Session
from ringwise.reasons import Reason, Stage
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.explain.cures import Cure, find_cures
from ringwise.scheduler.explain.forecast import Forecast, forecast
from ringwise.scheduler.explain.near_misses import NearMiss, Refusals, look_around
from ringwise.scheduler.explain.what_if import gone, obstacle, present, question
from ringwise.state.model import Pod
from ringwise.wellknown import SUPER_POD_ID, SUPER_POD_RANK

#: Nearest misses that a person is shown.
SHOWN_MISSES = 5
#: Names of jobs ahead that a person is shown.
SHOWN_AHEAD = 5


class UnknownJobError(LookupError):
    """No job, or more than one, has that name."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a pod of the job is, and with which chips."""

    pod: str
    rank: int
    node: str | None
    chips: tuple[int, ...] = ()
    switch: str | None = None
    superpod: str | None = None
    block: str | None = None


@dataclass(slots=True)
class Explanation:
    job: Job
    #: running, starting (part of it runs), pending, refused, ended
    outcome: str
    sentence: str
    reason: Reason | None = None
    refusals: Refusals | None = None
    position: int | None = None
    waiting: int = 0
    ahead: tuple[str, ...] = ()
    expected: Forecast | None = None
    #: Chips that are kept for it until it can start.
    kept: int = 0
    cures: list[Cure] = field(default_factory=list)
    seats: list[Seat] = field(default_factory=list)
    #: How the job got its nodes, line by line.
    plan: tuple[str, ...] = ()

    @property
    def misses(self) -> tuple[NearMiss, ...]:
        return self.refusals.misses[:SHOWN_MISSES] if self.refusals is not None else ()

    def as_json(self) -> dict[str, Any]:
        job, refusals = self.job, self.refusals
        return {
            "namespace": job.namespace,
            "name": job.name,
            "class": job.policy.switch_class if job.policy is not None else None,
            "board": job.policy.board.name if job.policy is not None else None,
            "outcome": self.outcome,
            "sentence": self.sentence,
            "reason": None if self.reason is None else self.reason.as_json(),
            "refusals": None if refusals is None else refusals.counts,
            "fitting_nodes": None if refusals is None else refusals.fits,
            "near_misses": [
                {
                    "node": miss.node,
                    "missing_chips": miss.missing,
                    "text": miss.text,
                    "code": miss.reason.code,
                }
                for miss in self.misses
            ],
            "queue": {
                "name": job.queue,
                "position": self.position,
                "waiting": self.waiting,
                "ahead": list(self.ahead),
            },
            "kept_chips": self.kept,
            "expected_start": None if self.expected is None else self.expected.as_json(),
            "cures": [cure.as_json() for cure in self.cures],
            "pods": [
                {
                    "name": seat.pod,
                    "rank": seat.rank,
                    "node": seat.node,
                    "chips": list(seat.chips),
                    "switch": seat.switch,
                    "superpod": seat.superpod,
                    "block": seat.block,
                }
                for seat in self.seats
            ],
            "plan": list(self.plan),
        }


def find_job(scheduler: Scheduler, name: str) -> Job:
    """The job with this name, `namespace/name`, or with a pod of this name."""
    jobs = list(scheduler.book.jobs.values())
    for matches in (
        [job for job in jobs if name in (job.key, f"{job.namespace}/{job.name}")],
        [job for job in jobs if name == job.name],
        [job for job in jobs if any(name in (pod.name, pod.key) for pod in job.pods.values())],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = ", ".join(sorted(f"{job.namespace}/{job.name}" for job in matches)[:SHOWN_AHEAD])
            raise UnknownJobError(f"{len(matches)} jobs are called {name}; say which: {names}")
    known = sorted({f"{job.namespace}/{job.name}" for job in jobs} | {job.name for job in jobs})
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(close)}?" if close else f"{len(jobs)} jobs are known"
    raise UnknownJobError(f"there is no job {name}; {hint}")


def explain(scheduler: Scheduler, job: Job, now: int) -> Explanation:
    """All that can be said about the job. The state is the same before and after."""
    with question(scheduler), present(scheduler, job):
        waiting = any(scheduler.is_waiting(pod) for pod in job.pods.values())
        placed = any(scheduler.state.pods[uid].node >= 0 for uid in job.pods)
        if not waiting and not _refused(job):
            return _of_running(scheduler, job, now, placed)
        return _of_waiting(scheduler, job, now, placed)


def _refused(job: Job) -> bool:
    return bool(job.defects) or (job.reason is not None and job.reason.kind.stage is Stage.VALIDATE)


# -- waiting -------------------------------------------------------------------------------------


def _of_waiting(scheduler: Scheduler, job: Job, now: int, placed: bool) -> Explanation:
    session = scheduler.open_session(now, [job])
    line = _line(scheduler, session, job)
    ahead = line[: line.index(job)] if job in line else []
    reason, refusals = _look(scheduler, session, job)
    if reason is None:
        reason = job.reason
    refused = reason is not None and reason.kind.stage is Stage.VALIDATE
    outcome = "refused" if refused else "starting" if placed else "pending"
    if reason is None:
        sentence = "it would start in the next cycle"
    else:
        sentence = reason.message
    answer = Explanation(job, outcome, sentence, reason, refusals, seats=_seats(scheduler, job))
    answer.ahead = tuple(f"{other.namespace}/{other.name}" for other in ahead[:SHOWN_AHEAD])
    if not refused:
        answer.position, answer.waiting = len(ahead) + 1, len(line)
        if reason is not None:
            answer.expected = forecast(scheduler, job, now, ahead)
        reservation = scheduler.reservations.of(job.key)
        answer.kept = reservation.chip_count if reservation is not None else 0
    if reason is not None:
        answer.cures = find_cures(scheduler, job, now, refusals, ahead)
    return answer


def _line(scheduler: Scheduler, session: Session, job: Job) -> list[Job]:
    """The waiting jobs of its queue in the order in which they are served, without refused ones."""
    waiting = [
        other
        for other in scheduler.book.jobs.values()
        if other.queue == job.queue
        and (other is job or not _refused(other))
        and any(scheduler.is_waiting(pod) for pod in other.pods.values())
    ]
    return sorted(waiting, key=session.job_key)


def _look(scheduler: Scheduler, session: Session, job: Job) -> tuple[Reason | None, Refusals | None]:
    """Try to place the job, and ask around at the moment when it fails."""
    stopped = obstacle(scheduler, session, job)
    if job.policy is None and any(pod.cls.chips for pod in job.pods.values()):
        return stopped, None
    statement = session.statement()
    try:
        with session.reservations.open_to(job.key):
            reason = fill(session, job, statement)
            pod = _hardest(session, job)
            if pod is None or (stopped is None and reason is None):
                return stopped, None
            return stopped or reason, look_around(scheduler, session, job, pod)
    finally:
        statement.discard()


def _hardest(session: Session, job: Job) -> Pod | None:
    """The pod without a node that asks for most chips."""
    pods = pending_pods(session, job)
    return max(pods, key=lambda pod: pod.cls.chips, default=None)


# -- running -----------------------------------------------------------------------------------------


def _of_running(scheduler: Scheduler, job: Job, now: int, placed: bool) -> Explanation:
    if not placed:
        ended = [pod for pod in job.pods.values() if not pod.live]
        words = f"{len(ended)} of its {len(job.pods)} pods have ended; it waits for nothing"
        return Explanation(job, "ended", words if job.pods else "it has no pods yet")
    seats = _seats(scheduler, job)
    nodes = sorted({seat.node for seat in seats if seat.node is not None})
    chips = sum(len(seat.chips) for seat in seats)
    words = f"{sum(1 for seat in seats if seat.node)} pod(s) with {chips} chip(s) run on {len(nodes)} node(s)"
    plan = scheduler.plans.get(job.key)
    lines = plan.lines if plan is not None else tuple(_groups(seats))
    return Explanation(job, "running", words, seats=seats, plan=(*lines, *_choice(scheduler, job, now)))


def _choice(scheduler: Scheduler, job: Job, now: int) -> tuple[str, ...]:
    """How good the first pod's node is: judged as if the job were not there yet."""
    policy = job.policy
    first = next((pod for pod in job.chip_pods if scheduler.state.pods[pod.uid].node >= 0), None)
    session = scheduler.open_session(now, [job])
    if first is None or session.job_valid(job) is not None or job.policy is None:
        return ()
    policy, state = job.policy, scheduler.state
    node = state.pods[first.uid].node
    with gone(scheduler, session, job.pods, job):
        asking = session.node_selection(job, first)
        score, reason = asking.verdict(node)
        fitting = asking.fitting_nodes()
        if reason is not None or score is None:
            return (f"{state.names[node]} would not be chosen today: {reason.message}",) if reason else ()
        fleet = state.fleets[policy.resource]
        usable = asking.usable(node)
        signature = policy.rule.signature(usable, fleet.allocatable[node], fleet.faulty[node])
        group = policy.rule.group(signature, first.cls.chips)
        better = [other for other in fitting if (asking.verdict(other)[0] or 0) > score]
        words = f"{state.names[node]}: score {score}" + (f", group {group}" if group else "")
        words += f"; {len(fitting)} node(s) would fit without it"
        if policy.switch_class is None and policy.block_nodes is None:
            words += f", {len(better) or 'none'} of them with a higher score"
        return (words,)


def _groups(seats: list[Seat]) -> list[str]:
    """Pods per switch and per block, where the job has them."""
    lines = []
    switches: dict[str, list[int]] = {}
    blocks: dict[tuple[str, str], list[int]] = {}
    for seat in seats:
        if seat.switch is not None:
            switches.setdefault(seat.switch, []).append(seat.rank)
        if seat.block is not None and seat.superpod is not None:
            blocks.setdefault((seat.block, seat.superpod), []).append(seat.rank)
    for switch, ranks in switches.items():
        lines.append(f"switch {switch}: {len(ranks)} pod(s), ranks {_span(ranks)}")
    for (block, superpod), ranks in sorted(blocks.items()):
        lines.append(f"block {block}: SuperPoD {superpod}, {len(ranks)} pod(s), ranks {_span(ranks)}")
    return lines


def _span(ranks: list[int]) -> str:
    low, high = min(ranks), max(ranks)
    if len(ranks) == high - low + 1:
        return str(low) if low == high else f"{low}-{high}"
    return ", ".join(str(rank) for rank in sorted(ranks))


def _seats(scheduler: Scheduler, job: Job) -> list[Seat]:
    state, ranks = scheduler.state, ranks_of(job)
    resolved = scheduler.world.switches(state)
    switched = job.policy is not None and job.policy.switch_class is not None
    seats = []
    for pod in sorted(job.pods.values(), key=lambda pod: (ranks.get(pod.uid, 0), pod.name)):
        number = state.pods[pod.uid].node
        rank = ranks.get(pod.uid, 0)
        if number < 0:
            seats.append(Seat(pod.name, rank, None))
            continue
        node = state.names[number]
        seats.append(
            Seat(
                pod.name,
                rank,
                node,
                pod.holds,
                resolved.switch_name(node) if resolved is not None and switched else None,
                pod.annotations.get(SUPER_POD_ID),
                pod.annotations.get(SUPER_POD_RANK),
            )
        )
    return seats
