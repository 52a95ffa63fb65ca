"""F1: jobs that are being rescheduled, as a versioned document that the next leader reads.

It has a bound: a document that is larger is compressed, which leaves room for jobs of some 10,000 pods. Where
even that does not fit, retries and the jobs whose fault is oldest are left out; their number is written,
logged and a metric. A document of another version, or one that cannot be read, is as none: faults that still
exist are found again.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, NamedTuple, TypeVar

from ringwise.framework.reschedule_clock import RescheduleClock
from ringwise.placement.racks.levels import Level
from ringwise.records import dataclass
from ringwise.scheduler.faults.bounded_texts import check_writable, compact
from ringwise.scheduler.faults.detection import FaultType, PodFault
from ringwise.scheduler.faults.fault_job import Deletion, FaultJob, FaultyPod
from ringwise.scheduler.faults.records import RetryBudget
from ringwise.scheduler.faults.restarts import Restarted
from ringwise.scheduler.faults.scope import Position
from ringwise.scheduler.faults.states import ENDED, State
from ringwise.versions import RECORD_VERSION, read_record

#: Bytes. A ConfigMap holds 1 MiB; this one has other data keys.
MAX_DOCUMENT = 750 * 1024
#: Bytes of a compressed document when it is unpacked: those of more than 100,000 pods.
MAX_UNPACKED = 64 * 1024 * 1024
#: Later than any time in nanoseconds.
_LATEST = 1 << 63
EMPTY_TOLERATED: Mapping[str, list[list[Any]]] = {}
NO_RESTARTS: Mapping[str, Restarted] = {}


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What a document holds, and what is wrong with it."""

    jobs: tuple[FaultJob, ...] = ()
    #: F2: by job.
    clocks: tuple[tuple[str, RescheduleClock], ...] = ()
    retries: tuple[tuple[str, RetryBudget], ...] = ()
    #: Previous placements, as `PreviousPlacements` writes them.
    placements: tuple[Mapping[str, Any], ...] = ()
    #: F6: shares that are kept, as `ShareRecords` writes them.
    shares: tuple[Mapping[str, Any], ...] = ()
    #: Node to chip and code of faults that jobs tolerate, with the time at which each was first seen.
    tolerated: Mapping[str, Mapping[tuple[int, str], int]] = field(default_factory=dict, hash=False)
    problem: str = ""
    #: Owner and name of pods that kubelet rejected, with their number and the last uid (F5).
    rejections: Mapping[str, tuple[int, str]] = field(default_factory=dict, hash=False)
    #: By owner: restarts because of faults that follow each other.
    restarts: tuple[tuple[str, Restarted], ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenDocument:
    text: str
    #: Entries for which there was no room.
    left_out: int = 0


def write(
    jobs: Iterable[FaultJob],
    clocks: Mapping[str, RescheduleClock],
    retries: Mapping[str, RetryBudget],
    placements: Iterable[Mapping[str, Any]],
    tolerated: Mapping[str, list[list[Any]]] = EMPTY_TOLERATED,
    rejections: Iterable[tuple[str, tuple[int, str]]] = (),
    shares: Iterable[Mapping[str, Any]] = (),
    restarts: Mapping[str, Restarted] = NO_RESTARTS,
    *,
    largest: int = MAX_DOCUMENT,
) -> WrittenDocument:
    """As JSON, and compressed where that is too large; what does not fit even so is left out and counted."""
    # Nothing is held for a suspended job, and it is kept for days: it goes before what a fault hit.
    parts = [
        _Part("placements", compact(one), 0 if one.get("suspended") else int(one.get("until", 0)))
        for one in placements
    ]
    parts += [_Part("shares", compact(one), _time(one.get("until"))) for one in shares]
    parts += [_Part("jobs", compact(_job(one)), one.since) for one in jobs]
    parts += [_Part("clocks", compact(_clock(*one)), one[1].since) for one in clocks.items()]
    parts += [_Part("tolerated", compact(one), max(seen for *_, seen in one[1])) for one in tolerated.items()]
    parts += [_Part("rejections", compact([place, *last]), 0) for place, last in rejections]
    parts += [
        # There may be thousands, of all jobs that a fault hit lately.
        _Part("restarts", f"[{compact(owner)},{one.first},{one.last},{one.again}]", one.last)
        for owner, one in restarts.items()
    ]
    # Newest first: the oldest do not fit.
    parts.sort(key=lambda part: part.time, reverse=True)
    # After them, the one that was used last first: a lost one costs a restart too much, and moves no pod.
    parts += [
        _Part("retries", f"{compact(owner)}:{compact([one.job, one.used, one.allowed])}", 0)
        for owner, one in reversed(tuple(retries.items()))
    ]
    text = _joined(parts, 0)
    if len(text.encode()) <= largest:
        return WrittenDocument(text)
    room = len(text.encode())
    while True:
        taken = _that_fit(parts, room)
        left_out = len(parts) - len(taken)
        packed = base64.b64encode(zlib.compress(_joined(taken, left_out).encode())).decode()
        text = f'{{"version":{RECORD_VERSION},"leftOut":{left_out},"compressed":"{packed}"}}'
        if len(text) <= largest or not taken:
            return WrittenDocument(text, left_out)
        # By as much as it is too large, and a little more.
        room = room * largest * 9 // (len(text) * 10)


class _Part(NamedTuple):
    list: str
    text: str
    time: int


def _time(until: int | None) -> int:
    """Of a share; one without an end is new: its first pod still terminates."""
    return _LATEST if until is None else until


def _that_fit(parts: Iterable[_Part], room: int) -> list[_Part]:
    taken: list[_Part] = []
    for part in parts:
        size = len(part.text.encode()) + 1
        if size <= room:
            room -= size
            taken.append(part)
    return taken


def _joined(parts: Iterable[_Part], left_out: int) -> str:
    lists = ("retries", "jobs", "clocks", "placements", "tolerated", "rejections", "restarts")
    texts: dict[str, list[str]] = {name: [] for name in lists}
    for name, text, _ in parts:
        texts.setdefault(name, []).append(text)
    # The one that was used last comes last: the first are forgotten first.
    retries = ",".join(reversed(texts.pop("retries")))
    others = ",".join(f'"{name}":[{",".join(found)}]' for name, found in texts.items())
    return f'{{"version":{RECORD_VERSION},"leftOut":{left_out},"retries":{{{retries}}},{others}}}'


def unpacked(packed: str) -> str:
    """What is in a compressed document. One that grows beyond all reason is no document of ours."""
    decompressor = zlib.decompressobj()
    data = decompressor.decompress(base64.b64decode(packed, validate=True), MAX_UNPACKED)
    if not decompressor.eof:
        raise ValueError("it does not end")
    return data.decode()


def read(text: str) -> ReadDocument:
    found, problem = read_record(text)
    if isinstance(found.get("compressed"), str):
        try:
            found, problem = read_record(unpacked(found["compressed"]))
        except (ValueError, zlib.error):
            problem = "cannot be unpacked"
    if problem:
        return ReadDocument(problem=problem)
    wrong: list[str] = []
    jobs = _each(found.get("jobs"), "jobs", _read_job, wrong)
    clocks = _each(found.get("clocks"), "clocks", _read_clock, wrong)
    placements = _each(found.get("placements"), "placements", _read_placement, wrong)
    budgets = found.get("retries")
    retries = _each(
        list(budgets.items()) if isinstance(budgets, dict) else budgets, "retries", _read_budget, wrong
    )
    tolerated = dict(_each(found.get("tolerated"), "tolerated", _read_tolerated, wrong))
    rejections = dict(_each(found.get("rejections"), "rejections", _read_rejection, wrong))
    shares = _each(found.get("shares"), "shares", _read_placement, wrong)
    restarts = _each(found.get("restarts"), "restarts", _read_restarted, wrong)
    return ReadDocument(
        jobs, clocks, retries, placements, shares, tolerated, "; ".join(wrong), rejections, restarts
    )


Part = TypeVar("Part")


def _each(given: Any, name: str, read_one: Callable[[Any], Part], wrong: list[str]) -> tuple[Part, ...]:
    """Every entry that can be read; one bad entry costs no other."""
    if not isinstance(given, list):
        if given is not None:
            wrong.append(f"{name} is no list")
        return ()
    found: list[Part] = []
    bad = 0
    for entry in given:
        try:
            check_writable(entry)
            found.append(read_one(entry))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
            bad += 1
    if bad:
        wrong.append(f"{bad} of {len(given)} {name} cannot be read")
    return tuple(found)


# -- jobs ----------------------------------------------------------------------------------------------


def _job(job: FaultJob) -> dict[str, Any]:
    return {
        "key": job.key,
        "owner": job.owner,
        "since": job.since,
        "state": job.state.value,
        "faulty": [_faulty(pod) for pod in job.faulty.values()],
        "missing": [_position(one) for one in job.missing.values()],
        "deletions": {
            uid: [one.name, _position(one.position), one.sent, one.forced, one.unreachable, one.evict]
            for uid, one in job.deletions.items()
        },
        "deletingSince": job.deleting_since,
        "external": job.external,
        "blocked": job.blocked,
        "toldToExit": job.told_to_exit,
        "hardwareBroke": job.hardware_broke,
        "usedRetry": job.used_retry,
        "drained": job.drained,
        "excused": job.excused,
    }


def _read_job(given: Any) -> FaultJob:
    state = State(given["state"])
    if state is State.HEALTHY or state in ENDED:
        raise ValueError("a job in this state is not kept")
    return FaultJob(
        key=_text(given["key"]),
        owner=_text(given["owner"]),
        since=_number(given["since"]),
        state=state,
        faulty={one.uid: one for one in map(_read_faulty, given["faulty"])},
        missing={one.rank: one for one in map(_read_position, given["missing"])},
        deletions={
            _text(uid): Deletion(
                _text(name),
                _read_position(place),
                bool(sent),
                bool(forced),
                bool(lost),
                evict=bool(evict),
            )
            for uid, (name, place, sent, forced, lost, evict) in given["deletions"].items()
        },
        deleting_since=_number(given["deletingSince"]),
        external=bool(given["external"]),
        blocked=_text(given["blocked"]),
        told_to_exit=bool(given["toldToExit"]),
        hardware_broke=bool(given["hardwareBroke"]),
        used_retry=bool(given["usedRetry"]),
        drained=bool(given["drained"]),
        excused=bool(given["excused"]),
    )


def _clock(key: str, clock: RescheduleClock) -> dict[str, Any]:
    return {
        "key": key,
        "owner": clock.owner,
        "since": clock.since,
        "level": clock.level.name,
        "waited": clock.counted,
        "recovery": clock.recovery,
    }


def _read_clock(given: Any) -> tuple[str, RescheduleClock]:
    key = _text(given["key"])
    return key, RescheduleClock(
        _text(given["owner"]),
        _number(given["since"]),
        Level[given["level"]],
        max(0, _number(given["waited"])),
        recovery=_text(given["recovery"]),
    )


def _faulty(pod: FaultyPod) -> dict[str, Any]:
    fault = pod.fault
    return {
        "uid": pod.uid,
        "name": pod.name,
        "node": pod.node,
        "position": _position(pod.position),
        "type": fault.type.value,
        "why": fault.why,
        "unreachable": fault.unreachable,
        "chips": fault.chips,
        "hotSwitch": fault.hot_switch,
    }


def _read_faulty(given: Any) -> FaultyPod:
    fault = PodFault(
        FaultType(given["type"]),
        _text(given["why"]),
        bool(given["unreachable"]),
        _number(given["chips"]),
        bool(given["hotSwitch"]),
    )
    return FaultyPod(
        _text(given["uid"]),
        _text(given["name"]),
        _text(given["node"]),
        _read_position(given["position"]),
        fault,
    )


def _position(one: Position) -> list[Any]:
    return [one.rank, one.block, one.rack, one.master]


def _read_position(given: Any) -> Position:
    rank, block, rack, master = given
    return Position(_number(rank), _number(block), _number(rack), bool(master))


# -- retries and placements ------------------------------------------------------------------------------


def _read_budget(given: Any) -> tuple[str, RetryBudget]:
    owner, (job, used, allowed) = given
    budget = RetryBudget(_text(job), _number(used), _number(allowed))
    return _text(owner), budget


def _read_restarted(given: Any) -> tuple[str, Restarted]:
    owner, first, last, again = given
    return _text(owner), Restarted(_number(first), _number(last), max(0, _number(again)))


def _read_placement(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise TypeError("a placement is an object")
    return given


def _read_tolerated(given: Any) -> tuple[str, Mapping[tuple[int, str], int]]:
    node, faults = given
    seen = {(_number(chip), _text(code)): _number(time) for chip, code, time in faults}
    if not seen:
        raise ValueError("a node without faults is not kept")
    return _text(node), seen


def _read_rejection(given: Any) -> tuple[str, tuple[int, str]]:
    place, times, uid = given
    return _text(place), (_number(times), _text(uid))


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError("must be a text")
    return given


def _number(given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError("must be a whole number")
    return given
