"""Which sub-group of its job a pod belongs to: Volcano's `subGroupPolicy`.

A pod belongs to the first policy whose selector matches and whose labels it all has. Pods that match none are
one more sub-group, the last, without a policy.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ringwise.framework.selectors import all_hold
from ringwise.state.model import NetworkTopology, Pod, SubGroupPolicy
from ringwise.topology.natural import natural_key
from ringwise.topology.numbers import INT64, whole_number

#: Requirements and values that are compared to cut one job. Real policies name each a task, and are found by
#: that name.
MAX_STEPS = 200_000
#: Characters of a name that is made from labels.
_MAX_NAME = 128


class SubGroup(NamedTuple):
    """Pods of a job that start together, or not at all."""

    #: The values of the labels of its policy.
    name: str
    #: None: the pods that no policy is about.
    policy: SubGroupPolicy | None
    #: Position of the policy in the PodGroup.
    position: int
    #: Its place among the others: the first of those values as a number.
    number: int
    #: Uids, in natural order of the pods' names.
    pods: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many of its pods must run for it to be ready."""
        return 1 if self.policy is None else self.policy.size

    @property
    def title(self) -> str:
        """For people."""
        if self.policy is None:
            return "(rest)"
        return "/".join(part for part in (self.policy.name, self.name) if part)

    @property
    def topology(self) -> NetworkTopology | None:
        return None if self.policy is None else self.policy.topology

    @property
    def block(self) -> int:
        """A number of its own, the same as long as it exists."""
        return zlib.crc32(f"{self.position}/{self.name}".encode()) >> 1

    @property
    def order(self) -> tuple[object, ...]:
        """The end of its sort key."""
        return self.number, self.position, natural_key(self.name)


class TooManySteps(Exception):
    """The policies of a PodGroup cost more to apply to its pods than they may."""


def cut(policies: Sequence[SubGroupPolicy], pods: Iterable[Pod]) -> tuple[SubGroup, ...]:
    """The sub-groups of these pods, in natural order of their first pods. May raise `TooManySteps`."""
    finder = _Finder(policies)
    members: dict[tuple[int, str], list[str]] = {}
    indexes: dict[tuple[int, str], int] = {}
    for pod in pods:
        position, values = finder.find(pod.labels)
        name = _name(values)
        key = position, name
        if key not in members:
            members[key] = []
            indexes[key] = _index(values)
        members[key].append(pod.uid)
    rest = len(policies)
    return tuple(
        SubGroup(name, policies[position] if position < rest else None, position, indexes[key], tuple(uids))
        for key, uids in members.items()
        for position, name in (key,)
    )


class _Finder:
    """The policy of a pod, found once for all pods that have equal values of the labels that count."""

    def __init__(self, policies: Sequence[SubGroupPolicy]) -> None:
        self._policies = policies
        self._keys = tuple(dict.fromkeys(key for policy in policies for key in policy.labels))
        self._matches: dict[tuple[str | None, ...], tuple[int, tuple[str, ...]]] = {}
        self._steps = 0
        #: Positions of policies by a label that their pods have; and of those that name none.
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._others: list[int] = []
        for position, policy in enumerate(policies):
            exact = [
                (one.key, one.values[0])
                for one in policy.selector or ()
                if one.operator == "In" and len(one.values) == 1
            ]
            if exact:
                self._by_label.setdefault(exact[0], []).append(position)
            else:
                self._others.append(position)
        self._label_keys = tuple(dict.fromkeys(key for key, _ in self._by_label))

    def find(self, labels: Mapping[str, str]) -> tuple[int, tuple[str, ...]]:
        signature = tuple(labels.get(key) for key in self._keys)
        result = self._matches.get(signature)
        if result is None:
            result = self._matches[signature] = self._first_match(labels)
        return result

    def _first_match(self, labels: Mapping[str, str]) -> tuple[int, tuple[str, ...]]:
        positions = list(self._others)
        for key in self._label_keys:
            positions += self._by_label.get((key, labels.get(key, "")), ())
        for position in sorted(positions):
            policy = self._policies[position]
            self._steps += 1 + sum(1 + len(one.values) for one in policy.selector or ())
            if self._steps > MAX_STEPS:
                raise TooManySteps
            values = tuple(labels.get(key, "") for key in policy.match_label_keys)
            if all(values) and all_hold(policy.selector or (), labels):
                return position, values
        return len(self._policies), ()


def _name(values: Sequence[str]) -> str:
    name = "-".join(values)
    return name if len(name) <= _MAX_NAME else f"{zlib.crc32(name.encode()):08x}"


def _index(values: Sequence[str]) -> int:
    """Values that are not numbers come last."""
    number = whole_number(values[0], 0) if values else 0
    return INT64 if number is None else number
