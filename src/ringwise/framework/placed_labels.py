"""Placed pods by namespace, and by the labels that affinity terms ask for most lately.

A term that wants certain values of a label looks at the pods that have them, not at all pods of its
namespaces. The index is kept from cycle to cycle, and brought up to date by what changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ringwise.framework.selectors import ALL_NAMESPACES, spaces_of
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod, PodTerm

#: So many labels are indexed at once: more than jobs use, and few enough for the memory of a large cluster.
MAX_KEYS = 8
#: Uids of pods, in the order in which they were placed.
_Uids = dict[str, None]


class PlacedLabels:
    def __init__(self) -> None:
        #: The pods that are indexed, as they were then.
        self._pods: dict[str, Pod] = {}
        self._spaces: dict[str, _Uids] = {}
        #: By label and value: a pod, or several. The label that was asked for last is last.
        self._values: dict[str, dict[str, str | _Uids]] = {}
        self._read = -1

    def index(self, state: ClusterState, keys: Iterable[str]) -> int:
        """Be up to date, and index these labels, too; returns how many pods had to be looked at."""
        looked_at = self._follow(state)
        missing = []
        for key in keys:
            uids_of = self._values.pop(key, None)
            if uids_of is None:
                missing.append(key)
            self._values[key] = {} if uids_of is None else uids_of
        while len(self._values) > MAX_KEYS:
            del self._values[next(iter(self._values))]
        missing = [key for key in missing if key in self._values]
        if not missing:
            return looked_at
        for pod in self._pods.values():
            for key in missing:
                if key in pod.labels:
                    _add(self._values[key], pod.labels[key], pod.uid)
        return looked_at + len(self._pods)

    def candidates(self, terms: Iterable[PodTerm], namespace: str) -> Collection[str]:
        """All pods that one of the terms can match, and few others."""
        result: _Uids = {}
        left = len(self._pods)
        added: set[int] = set()
        for term in terms:
            for uids in self._of_term(term, namespace):
                if isinstance(uids, str):
                    result[uids] = None
                    left -= 1
                elif id(uids) not in added:
                    added.add(id(uids))
                    left -= len(uids)
                    if left > 0:
                        result.update(uids)
                if left <= 0:
                    return self._pods
        return result

    def _of_term(self, term: PodTerm, namespace: str) -> Iterator[str | _Uids]:
        """By namespace, or by a label that leaves fewer."""
        spaces = spaces_of(term, namespace)
        # Labels of namespaces are looked at later.
        everywhere = ALL_NAMESPACES in spaces or term.namespace_selector is not None
        size = len(self._pods) if everywhere else sum(len(uids) for uids in self._in(spaces))
        best: list[str | _Uids] | None = None
        for requirement in term.selector:
            uids_of = self._values.get(requirement.key) if requirement.operator == "In" else None
            if uids_of is None:
                continue
            matching = [uids_of[value] for value in set(requirement.values) if value in uids_of]
            count = sum(1 if isinstance(uids, str) else len(uids) for uids in matching)
            if count < size:
                best, size = matching, count
        if best is not None:
            yield from best
        elif everywhere:
            yield from self._spaces.values()
        else:
            yield from self._in(spaces)

    def _in(self, spaces: tuple[str, ...]) -> Iterator[_Uids]:
        """The pods of these namespaces; the cost grows with the smaller number of namespaces."""
        if len(spaces) <= len(self._spaces):
            yield from (self._spaces[space] for space in dict.fromkeys(spaces) if space in self._spaces)
        else:
            wanted = frozenset(spaces)
            yield from (uids for space, uids in self._spaces.items() if space in wanted)

    # -- following -------------------------------------------------------------------------

    def _follow(self, state: ClusterState) -> int:
        changed = state.placed_changes.since(self._read)
        if changed is None:
            changed = [*self._pods, *(uid for uid, record in state.pods.items() if record.node >= 0)]
        self._read = state.placed_changes.end
        for uid in changed:
            self._update(state, uid)
        return len(changed)

    def _update(self, state: ClusterState, uid: str) -> None:
        before, record = self._pods.get(uid), state.pods.get(uid)
        after = record.pod if record is not None and record.node >= 0 else None
        if (
            before is not None
            and after is not None
            and (before.namespace, before.labels) == (after.namespace, after.labels)
        ):
            return
        if before is not None:
            del self._pods[uid]
            _discard(self._spaces, before.namespace, uid)
            for key, uids_of in self._values.items():
                if key in before.labels:
                    _discard(uids_of, before.labels[key], uid)
        if after is not None:
            self._pods[uid] = after
            self._spaces.setdefault(after.namespace, {})[uid] = None
            for key, uids_of in self._values.items():
                if key in after.labels:
                    _add(uids_of, after.labels[key], uid)


def _add(uids_of: dict[str, str | _Uids], value: str, uid: str) -> None:
    uids = uids_of.get(value)
    if uids is None:
        # Most pods have some labels of their own: no set for each.
        uids_of[value] = uid
    elif isinstance(uids, str):
        uids_of[value] = {uids: None, uid: None}
    else:
        uids[uid] = None


def _discard(uids_of: dict[str, str | _Uids] | dict[str, _Uids], value: str, uid: str) -> None:
    uids = uids_of[value]
    if not isinstance(uids, str):
        del uids[uid]
    if isinstance(uids, str) or not uids:
        del uids_of[value]
