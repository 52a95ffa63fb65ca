"""Gives every pod of a job a rank; `ranks.py` has the rule."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.state.model import Pod


def assign_ranks(pods: Sequence[Pod], size: int) -> dict[str, int]:
    """The rank of every pod, by uid. `pods` are in natural order of names; the job has `size` of them."""
    if len(pods) == 1:
        return {pods[0].uid: pods[0].rank or 0}
    ranks: dict[str, int] = {}
    used: set[int] = set()
    staying = [pod for pod in pods if not is_ending(pod)]
    ending = [pod for pod in pods if is_ending(pod)]
    left = {pod.rank for pod in ending if pod.rank is not None}
    _give(staying, ranks, used, left, max(size, len(staying)))
    _give(ending, ranks, used, set(), 0)
    return ranks


def is_ending(pod: Pod) -> bool:
    """Whether another pod takes its place."""
    return pod.phase == "Failed" or pod.deleting


def _give(pods: list[Pod], ranks: dict[str, int], used: set[int], left: set[int], size: int) -> None:
    """Ranks below the size that no pod has come first, then those that ending pods leave."""
    waiting = []
    for pod in sorted(pods, key=lambda pod: not pod.cls.chips):
        if pod.rank is not None and pod.rank not in used:
            ranks[pod.uid] = pod.rank
            used.add(pod.rank)
        else:
            waiting.append(pod)
    unused = [rank for rank in range(size) if rank not in used and rank not in left] if left else []
    following = 0
    for pod, rank in zip(waiting, unused, strict=False):
        ranks[pod.uid] = rank
        used.add(rank)
    for pod in waiting[len(unused) :]:
        while following in used:
            following += 1
        ranks[pod.uid] = following
        used.add(following)
