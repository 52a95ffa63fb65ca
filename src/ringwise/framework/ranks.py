"""Ranks: the place of a pod in its job's communication."""

from __future__ import annotations

from ringwise.framework.job import Job


def ranks_of(job: Job) -> dict[str, int]:
    """The rank of every pod, by uid.

    A pod keeps the rank it brings, unless an earlier pod brings the same. The others
    get the lowest unused ones in natural name order, pods with chips before pods without.
    """
    ranks: dict[str, int] = {}
    used: set[int] = set()
    pods = job.in_order
    waiting = []
    for pod in pods:
        if pod.rank is not None and pod.rank not in used:
            ranks[pod.uid] = pod.rank
            used.add(pod.rank)
        else:
            waiting.append(pod)
    waiting.sort(key=lambda pod: not pod.cls.chips)
    following = 0
    for pod in waiting:
        while following in used:
            following += 1
        ranks[pod.uid] = following
        used.add(following)
    return ranks
