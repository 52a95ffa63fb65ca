"""Chips of pods of whose mount there is no record (rule N8): a pod from before this plugin, or a lost file.

Which chips such a container has, neither the pod's annotations say, which its owner can write, nor kubelet,
which lists ids of its own. So all that they name is withheld until the pod ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ringwise.device.allocation import listed_chips
from ringwise.device.pods import NodePod
from ringwise.wellknown import ASCEND_REAL

#: Names of lists beside those of annotations: what kubelet lists, and what was reported before a restart.
_KUBELET, _REPORTED = "kubelet", "reported"


class UnconfirmedChips:
    """Each list of a pod counts as it was first read: a later edit neither frees nor takes chips."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        #: Other names of chips in lists that Huawei's scheduler wrote: on A5 it names logic ids.
        self.other_names: Mapping[str, str] = {}
        #: Pod uid to the name of a list and its chips.
        self._lists: dict[str, dict[str, tuple[str, ...]]] = {}

    def chips(self, pod: NodePod, ids: Sequence[str], mapped: Mapping[str, str], most: int) -> set[str]:
        """Return the chips that a pod may have, of each list at most so many.

        `ids` as kubelet lists them, `mapped` the chips behind known ids.
        """
        lists = self._lists.setdefault(pod.uid, {})
        if ids and _KUBELET not in lists:
            lists[_KUBELET] = tuple(mapped.get(one, one) for one in ids[:most])
        for key in (self._resource, ASCEND_REAL):
            named = listed_chips(pod.annotations.get(key), self._resource)[:most] if key not in lists else ()
            if named and key == self._resource:
                # Whose list it is, is unknown, so both meanings count.
                named += tuple(self.other_names[one] for one in named if one in self.other_names)
            if named:
                lists[key] = named
        return {chip for names in lists.values() for chip in names}

    def restore(self, reported: Mapping[str, Sequence[str]]) -> None:
        """What the node's report said before a restart."""
        for uid, chips in reported.items():
            self._lists.setdefault(uid, {}).setdefault(_REPORTED, tuple(chips))

    def forget(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self._lists.pop(uid, None)

    def keep(self, uids: Collection[str]) -> None:
        """All other pods are gone."""
        self.forget([uid for uid in self._lists if uid not in uids])
