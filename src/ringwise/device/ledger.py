"""What was mounted: kubelet's ids, the chips behind them, and the pods concerned (rules D2 and D3).

The book outlives the process in a file. Kubelet's pod-resources API says which pod has which ids; so the
book knows which pod has which chips, also where kubelet served pods of equal size in another order than the
scheduler placed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from ringwise.device.allocation import updated_map
from ringwise.records import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """What a container has of the chip of its mount."""

    percent: int
    #: Megabytes of the chip's memory.
    memory: int
    policy: str
    #: Folder of the job below /etc/enpu, which pods of the job share.
    folder: str
    #: Number among the shares of the chip.
    virtual: int


@dataclass(frozen=True, slots=True)
class Mount:
    """One container's chips. `ids` and `chips` have the same order, except of a share: it has one chip."""

    resource: str
    ids: tuple[str, ...]
    chips: tuple[str, ...]
    #: Uid and namespace/name of the pod that Allocate chose, and its `predicate-time` before it was served.
    chosen: str
    chosen_key: str = ""
    time: str | None = None
    #: Uid of the pod that kubelet lists with these ids; empty until it is known.
    owner: str = ""
    #: Unix time in nanoseconds.
    at: int = 0
    #: Where the pod is gone and its container may still run: until when at most, where that cannot be seen.
    #: Kubelet has the ids back then, so there are none here.
    until: int = 0
    #: None if the container has all of its chips.
    share: Share | None = None

    @property
    def pod(self) -> str:
        """Uid of the pod that has the chips, as far as is known."""
        return self.owner or self.chosen


@dataclass(frozen=True, slots=True)
class Claim:
    """The chips that a pod is to get, and its place in the order of `predicate-time`."""

    chips: tuple[str, ...]
    time: str | None


@dataclass(slots=True)
class Ledger:
    """Mounts in the order in which they were made, and the claims of pods that changed places."""

    mounts: list[Mount] = field(default_factory=list)
    claims: dict[str, Claim] = field(default_factory=dict)
    #: Counts changes, so that the file is written only after one.
    version: int = 0

    def add(self, mount: Mount) -> None:
        """An id that kubelet hands out again was given back before."""
        ids = set(mount.ids)
        self.mounts = [
            one for one in self.mounts if one.resource != mount.resource or ids.isdisjoint(one.ids)
        ]
        self.mounts.append(mount)
        self.version += 1

    def remove(self, mount: Mount) -> None:
        if mount in self.mounts:
            self.mounts.remove(mount)
            self.version += 1

    def replace(self, old: Mount, new: Mount) -> None:
        if old != new:
            self.mounts[self.mounts.index(old)] = new
            self.version += 1

    def claim(self, uid: str, claim: Claim) -> None:
        self.claims[uid] = claim
        self.version += 1

    def unclaim(self, uid: str) -> None:
        if self.claims.pop(uid, None) is not None:
            self.version += 1

    def forget_claims(self, live: Iterable[str]) -> None:
        gone = self.claims.keys() - set(live)
        for uid in gone:
            del self.claims[uid]
        self.version += bool(gone)

    def mapped(self, resource: str) -> dict[str, str]:
        """Kubelet's ids to chips."""
        mapping: dict[str, str] = {}
        for mount in self.mounts:
            if mount.resource == resource:
                mapping = updated_map(mapping, mount.ids, mount.chips)
        return mapping

    # -- who has what --------------------------------------------------------------------------------

    def settle(self, free_claims: Mapping[str, Claim], live: Iterable[str]) -> None:
        """Undo what an exchange left behind.

        A call for pod B that was served as pod A leaves A marked as served and B, which has A's chips, still
        waiting. Following chosen -> owner from such an A ends at the pod whose own chips no call has taken
        yet (`free_claims`): these and their place in the order go to A, which kubelet will still ask for.
        """
        alive = set(live)
        owners = {mount.owner for mount in self.mounts if mount.owner}
        unknown = {mount.chosen for mount in self.mounts if not mount.owner}
        exchanged = {one.chosen: one for one in self.mounts if one.owner and one.chosen != one.owner}
        for displaced in [chosen for chosen in exchanged if chosen not in owners]:
            chain = [exchanged[displaced]]
            while (further := exchanged.get(chain[-1].owner)) is not None:
                chain.append(further)
            last = chain[-1].owner
            for mount in chain:
                del exchanged[mount.chosen]
            if last in unknown:
                # Its chips went to a call whose pod is not known yet.
                continue
            if displaced in alive and last in free_claims:
                self.claim(displaced, free_claims[last])
            for mount in chain:
                self.replace(mount, replace(mount, chosen=mount.owner))
        for mount in exchanged.values():
            # A ring of pods that all have their chips.
            self.replace(mount, replace(mount, chosen=mount.owner))
