"""Ranks: the index of a pod in its job's collective communication."""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.state.model import Pod


def ranks_of(job: Job) -> dict[str, int]:
    """The rank of every pod, by uid.

    A pod keeps the rank it was created with, unless an earlier pod has the same; a pod without chips leaves
    it to one with chips (Huawei's operator counts a Scheduler without chips apart from the Workers). The
    others get the lowest unused ones in natural name order, pods with chips before pods without.
    Failed and terminating pods come last: their ranks belong to the pods that replace them, which their owner
    may create, under other names, before they are gone.
    """
    return job.rank_table


def ranks_of_existing(job: Job) -> dict[str, int]:
    """Return the ranks of pods that exist; `ranks_of` also returns those of pods that will be created."""
    return ranks_of(job) if job.pods else {}


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
