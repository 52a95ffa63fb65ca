"""Ranks: the index of a pod in its job's collective communication."""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.state.model import Pod


def ranks_of(job: Job) -> dict[str, int]:
    """The rank of every pod, by uid.

    A pod keeps the rank it was created with, unless an earlier pod has the same; a pod without chips leaves
    it to one with chips (Huawei's operator counts a Scheduler without chips apart from the Workers). The
    others get the lowest unused ones in natural name order, pods with chips before pods without.
    Failed pods come last: their ranks belong to the pods that replace them.
    """
    if job.ranks is None:
        job.ranks = _assign(job)
    return job.ranks


def block_pod_count(job: Job) -> int:
    """Rule P7: the pods with chips that the job's blocks consist of, lost ones included.

    While a job is being rescheduled, its previous nodes name the ranks of lost pods that its
    objects may not show.
    """
    if not job.previous_nodes:
        return job.chip_pod_count
    ranks = ranks_of(job)
    present = {ranks[pod.uid] for pod in job.chip_pods}
    return max(job.chip_pod_count, len(present | job.previous_nodes.keys()))


def rank_of(job: Job, pod: Pod) -> int:
    """The rank of one of its pods; a single pod needs no table."""
    return pod.rank or 0 if len(job.pods) == 1 else ranks_of(job)[pod.uid]


def _assign(job: Job) -> dict[str, int]:
    pods = job.in_order
    if len(pods) == 1:
        return {pods[0].uid: pods[0].rank or 0}
    ranks: dict[str, int] = {}
    used: set[int] = set()
    _give([pod for pod in pods if pod.phase != "Failed"], ranks, used)
    _give([pod for pod in pods if pod.phase == "Failed"], ranks, used)
    return ranks


def _give(pods: list[Pod], ranks: dict[str, int], used: set[int]) -> None:
    waiting = []
    for pod in sorted(pods, key=lambda pod: not pod.cls.chips):
        if pod.rank is not None and pod.rank not in used:
            ranks[pod.uid] = pod.rank
            used.add(pod.rank)
        else:
            waiting.append(pod)
    following = 0
    for pod in waiting:
        while following in used:
            following += 1
        ranks[pod.uid] = following
        used.add(following)
