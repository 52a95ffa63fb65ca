"""Allocation on a node whose chips are shared: a pod gets a percentage of one chip (rules V19 to V21).

Kubelet sees 100 ids for each chip. The ids that it picks do not select the chip: the annotations of the pod
do, and the number of ids is its percentage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ringwise.device.allocation import listed_chips, preferred_ids
from ringwise.device.allocator import NOT_HERE, Allocator
from ringwise.device.ledger import Ledger, Mount, Share
from ringwise.device.pods import NodePod
from ringwise.wellknown import (
    AICORE_QUOTA,
    HBM_QUOTA,
    JOB_NAME,
    NO_NPU_RESOURCE,
    OPERATOR_JOB_NAME,
    SHARE_POLICIES,
    SHARE_POLICY,
)

#: Ids of a chip: one for each percent of it.
IDS = 100
#: In the message of a failed call if a chip that the scheduler chose is not on the node.
NO_RESOURCE = f"{NO_NPU_RESOURCE}: "
_QUOTA = re.compile(r"(?!0+$)[0-9]{1,9}", re.ASCII)  # 0 MB might mean no limit to the library.


def folder_of(pod: NodePod) -> str:
    """Return the folder that the pods of a job have in common (rule V19)."""
    names = (pod.labels.get(OPERATOR_JOB_NAME), pod.labels.get(JOB_NAME), pod.controller, pod.name)
    return f"{pod.namespace}.{next(name for name in names if name)}"


def share_of(pod: NodePod) -> Share | None:
    """Return the share in the annotations of a pod, without its virtual number; None if it cannot be read."""
    percent, memory = (pod.annotations.get(key, "") for key in (AICORE_QUOTA, HBM_QUOTA))
    policy = pod.annotations.get(SHARE_POLICY, "")
    if not (_QUOTA.fullmatch(percent) and _QUOTA.fullmatch(memory)) or policy not in SHARE_POLICIES:
        return None
    return Share(int(percent), int(memory), policy, folder_of(pod), -1)


class ShareAllocator(Allocator):
    """One resource of a node whose chips are shared."""

    _DISAGREES = "the request and the annotations of the share differ, or one cannot be read,"

    def __init__(self, resource: str, chips: Sequence[str], ledger: Ledger) -> None:
        super().__init__(resource, chips, ledger)
        #: Megabytes of each chip.
        self.memory: Mapping[str, int] = {}

    def _agrees(self, pod: NodePod) -> bool:
        share = share_of(pod)
        chips = listed_chips(pod.annotations.get(self.resource), self.resource)
        return share is not None and len(chips) == 1 and share.percent == pod.asks_for(self.resource) > 0

    def _mount(self, pod: NodePod, ids: Sequence[str], now: int) -> Mount:
        mount, share = super()._mount(pod, ids, now), share_of(pod)
        assert share is not None
        taken = {one.share.virtual for one in self._on(mount.chips[0]) if one.share is not None}
        virtual = next(number for number in range(len(taken) + 1) if number not in taken)
        return replace(mount, share=replace(share, virtual=virtual))

    def _failure(self, passed_over: Sequence[str], count: int) -> str:
        missing = any(problem.endswith(NOT_HERE) for problem in passed_over)
        return (NO_RESOURCE if missing else "") + super()._failure(passed_over, count)

    def _on(self, chip: str) -> list[Mount]:
        return [mount for mount in self._mounts() if chip in mount.chips]

    def _occupied(self, pod: NodePod, chips: Sequence[str], ids: Sequence[str], fresh: bool) -> str | None:
        chip, share, returned = chips[0], share_of(pod), set(ids)
        assert share is not None
        name = f"chip {chip} of pod {pod.key}"
        doubtful = self._doubtful_pods()
        for other in doubtful.get(chip, ()):
            if other.uid != pod.uid:
                return f"{name} may be in use by pod {other.key}, of which there is no record"
        percent = memory = 0
        for mount in self._on(chip):
            # Kubelet returned the ids that it assigns again; the container may still run.
            if not returned.isdisjoint(mount.ids) and not self._may_run(mount, fresh):
                continue
            if mount.share is None:
                return f"{name} is held by {self._holder(mount)}"
            if mount.share.policy != share.policy:
                return f"{name} has shares of policy {mount.share.policy}; the pod requests {share.policy}"
            percent, memory = percent + mount.share.percent, memory + mount.share.memory
        total = self.memory.get(chip, 0)
        if percent + share.percent > IDS or memory + share.memory > total:
            return (
                f"{name} has no room: {percent} of {IDS} percent and {memory} of {total} MB are used; "
                f"the pod requests {share.percent} percent and {share.memory} MB"
            )
        return None

    def _doubtful_pods(self) -> dict[str, list[NodePod]]:
        """Return the pods without a record by the chip that each may have (rule N8)."""
        result: dict[str, list[NodePod]] = {}
        for pod in self._without_mount():
            if self._is_doubtful(pod):
                for chip in self._named(pod):
                    result.setdefault(chip, []).append(pod)
        return result

    def _named(self, pod: NodePod) -> Collection[str]:
        if not self._is_doubtful(pod):
            return super()._named(pod)
        # What kubelet lists are percents, not chips; each list of the pod names one chip.
        return self.doubts.chips(pod, (), {}, 1)

    def _limited(self, pod: NodePod) -> tuple[str, ...]:
        return super()._limited(pod)[:1]

    def _recover(
        self, ids: Sequence[str], pod: NodePod, in_containers: Mapping[str, Sequence[str]], now: int
    ) -> bool:
        """Return False: no other source has the virtual number of a share, so its chip stays doubtful."""
        return False

    def used(self) -> set[str]:
        """Return the chips that take no share: percent or memory is used up, or not known."""
        result = set(self._doubtful_pods())
        for chip in self.chips:
            shares = [mount.share for mount in self._on(chip)]
            sizes = [share for share in shares if share is not None]
            percent, memory = sum(one.percent for one in sizes), sum(one.memory for one in sizes)
            if len(sizes) < len(shares) or percent >= IDS or memory >= self.memory.get(chip, 0) > 0:
                result.add(chip)
        return result

    def chips_of_pods(self) -> dict[str, tuple[str, ...]]:
        """Return the chips of pods that have all of them; shares are reported in a key of their own."""
        whole = {mount.pod for mount in self._mounts() if mount.share is None}
        return {uid: chips for uid, chips in super().chips_of_pods().items() if uid in whole}

    def shares_of_pods(self) -> dict[str, tuple[str, Share]]:
        result: dict[str, tuple[str, Share]] = {}
        mounts = {mount.pod: mount for mount in self._mounts()}
        for uid, chips in super().chips_of_pods().items():
            mount, pod = mounts.get(uid), self.pods.get(uid)
            # A pod that waits with the chip of another one after an exchange has no mount yet.
            share = mount.share if mount is not None else share_of(pod) if pod is not None else None
            if share is not None:
                result[uid] = (chips[0], share)
        return result

    def pod_of(self, chip: str) -> NodePod | None:
        """Return the pod that has the chip for itself: figures of a chip that several share are of none."""
        return super().pod_of(chip) if len(self._on(chip)) == 1 else None

    def device_ids(self) -> dict[str, tuple[str, ...]]:
        return {chip: tuple(f"{chip}-{number}" for number in range(IDS)) for chip in self.chips}

    def preferred(
        self,
        available: Sequence[str],
        must_include: Sequence[str],
        size: int,
        why_not: Callable[[str], str | None],
    ) -> list[str]:
        return preferred_ids((), set(available), must_include, size, {})
