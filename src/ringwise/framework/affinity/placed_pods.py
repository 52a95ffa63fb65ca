"""F2: how many pods of a job have their place, and how many wait for one.

A backup pod of a hot switch is no part of the gang before it takes over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ringwise.framework.job import Job
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod


def is_placed(state: ClusterState, pod: Pod) -> bool:
    """Bound, or Succeeded. A pod that terminates is neither: it may say Succeeded because it was deleted."""
    return not pod.deleting and (pod.phase == "Succeeded" or (pod.live and state.pods[pod.uid].node >= 0))


def placed_pods(state: ClusterState, job: Job) -> int:
    return sum(is_placed(state, pod) for uid, pod in job.pods.items() if uid not in job.backups)


def waiting_pods(state: ClusterState, job: Job) -> int:
    """Pods that wait for a node, and for nothing else."""
    return sum(
        pod.live and not pod.deleting and not pod.gated and state.pods[uid].node < 0
        for uid, pod in job.pods.items()
        if uid not in job.backups
    )


def lacks_sub_groups(job: Job, is_placed: Callable[[Pod], bool]) -> bool:
    """Whether fewer sub-groups of a policy have the pods that they need than must run."""
    if not job.sub_groups or job.group is None:
        return False
    complete = Counter(
        group.position
        for group in job.sub_groups
        if sum(uid not in job.backups and is_placed(job.pods[uid]) for uid in group.pods if uid in job.pods)
        >= group.size
    )
    return any(complete[position] < policy.min_groups for position, policy in enumerate(job.group.sub_groups))


def needed_pods(job: Job) -> int:
    return max(1, job.min_available)
