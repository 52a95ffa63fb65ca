"""Which pod an Allocate call serves: rule D2, as functions of values.

Kubelet's call names device ids and no pod. The pods of the node that wait for as many chips are the
candidates; the one that the scheduler placed first is served.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from ringwise.device.pods import NodePod
from ringwise.grammar import counted
from ringwise.manifests.objects.chips import MAX_LIST_CHARACTERS, chip_of
from ringwise.topology.natural import natural_key
from ringwise.wellknown import ASCEND_REAL, PREDICATE_TIME

#: `predicate-time` of a pod that was served. Only this text means it (rule D2).
CONSUMED = "18446744073709551615"
_LARGEST = 2**64 - 1

MAX_CONTAINERS = 300_000
MAX_IDS = 800
MAX_ID = 50
#: Pods that kubelet has given up; they keep their annotations.
_GIVEN_UP_REASON = "UnexpectedAdmissionError"
_GIVEN_UP_MESSAGE = "PreStartContainer check failed"


class AllocationError(Exception):
    """Why Allocate fails; kubelet puts the text into the pod's status."""


def predicate_time(text: str | None) -> int:
    """As an unsigned 64-bit number; anything else is the largest one, which sorts last."""
    if not text or not (text.isascii() and text.isdigit()):
        return _LARGEST
    return min(int(text), _LARGEST) if len(text) <= 64 else _LARGEST


def listed_chips(text: str | None, resource: str) -> tuple[str, ...]:
    """The chip names of a list, in its order; none when one is unreadable or there twice."""
    return _listed(text, resource) if text and len(text) <= MAX_LIST_CHARACTERS else ()


@lru_cache(maxsize=4096)
def _listed(text: str, resource: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    if len(set(names)) != len(names):
        return ()
    return tuple(names) if all(chip_of(name, resource) is not None for name in names) else ()


def is_candidate(pod: NodePod, resource: str) -> bool:
    """Whether a pod may be served at all, whatever the number of chips (rule D2)."""
    return (
        pod.live
        and not pod.deleting
        and pod.reason != _GIVEN_UP_REASON
        and not any(_GIVEN_UP_MESSAGE in message for message in pod.waiting_messages)
        and pod.asks_for(resource) > 0
        and resource in pod.annotations
        and pod.annotations.get(PREDICATE_TIME) != CONSUMED
    )


def first_placed(matching: Sequence[NodePod]) -> NodePod | None:
    """The pod that the scheduler placed first; ties by creation time, then by name (D2)."""
    if not matching:
        return None
    places = [(predicate_time(pod.annotations.get(PREDICATE_TIME)), pod.created) for pod in matching]
    first = min(places)
    ties = [pod for pod, place in zip(matching, places, strict=True) if place == first]
    return ties[0] if len(ties) == 1 else min(ties, key=lambda pod: natural_key(pod.key))


def named_chips(pod: NodePod, resource: str) -> tuple[str, ...]:
    """The chips that a pod's annotations name: those mounted, else those the scheduler chose (D2)."""
    real = pod.annotations.get(ASCEND_REAL)
    if real and real.strip():
        return listed_chips(real, resource)
    return listed_chips(pod.annotations.get(resource), resource)


def updated_map(before: Mapping[str, str], ids: Sequence[str], chips: Sequence[str]) -> dict[str, str]:
    """Kubelet's ids to the chips behind them, position by position; unchanged when the numbers differ."""
    if len(ids) != len(chips):
        return dict(before)
    return {**before, **dict(zip(ids, chips, strict=True))}


def reported_ids(chips: Sequence[str], mapped: Mapping[str, str]) -> dict[str, str]:
    """Under which id each chip is reported to kubelet.

    A chip in use is reported under the id that kubelet knows it by. The others, in the order in which they
    were found, take the ids that are left, sorted as text: so all ids are always there, and as many of them
    are unhealthy as chips are.
    """
    names = set(chips)
    reported = {chip: identity for identity, chip in mapped.items() if identity in names and chip in names}
    left = iter(sorted(names.difference(reported.values())))
    for chip in chips:
        if chip not in reported:
            reported[chip] = next(left)
    return reported


def preferred_ids(
    chips: Sequence[str],
    available: Collection[str],
    must_include: Sequence[str],
    size: int,
    reported: Mapping[str, str],
) -> list[str]:
    """Ids that agree with the chips of the pod to be served next, filled up in natural order."""
    chosen = list(dict.fromkeys(must_include))[:size]
    wanted = [*chips, *(reported.get(chip, chip) for chip in chips), *sorted(available, key=natural_key)]
    for identity in wanted:
        if len(chosen) >= size:
            break
        if identity in available and identity not in chosen:
            chosen.append(identity)
    return chosen


def check_request(requests: Sequence[Sequence[str]], valid: Collection[str], *, shares: bool = False) -> None:
    """Raise AllocationError for a request that no pod can have made; `shares`: ids are percents of chips."""
    if not requests:
        raise AllocationError("the request does not name a container")
    if len(requests) > MAX_CONTAINERS:
        raise AllocationError(
            f"the request names {counted(requests, 'container')}; the limit is {MAX_CONTAINERS}"
        )
    for ids in requests:
        if len(ids) > MAX_IDS:
            raise AllocationError(f"a container requests {len(ids)} IDs; the limit is {MAX_IDS}")
        if not ids:
            raise AllocationError("a container does not request an ID")
        if len(set(ids)) != len(ids):
            raise AllocationError("a container requests an ID twice")
        virtual = [identity for identity in ids if identity.count("-") > 1]
        if len(virtual) > 1 and not shares:
            raise AllocationError("a container can have only one vNPU")
        for identity in ids:
            if len(identity) > MAX_ID:
                raise AllocationError(f"an ID has {len(identity)} characters; the limit is {MAX_ID}")
            if identity not in valid:
                raise AllocationError(f"unknown device ID {identity}")
