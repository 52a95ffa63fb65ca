"""The rank a pod is told in its annotation `hccl/rankIndex`."""

from __future__ import annotations


def rank_annotation(
    existing: str | None, owner_kind: str, has_min_available_annotation: bool, task_index: int | None
) -> str | None:
    """The value the pod ends up with, or None if it has and gets none.

    A rank that is there is never overwritten. Otherwise pods of a ReplicaSet, and
    pods of jobs with `huawei.com/schedule_minAvailable`, get their index in the job;
    a pod the job does not know gets 0.
    """
    if existing:
        return existing
    if owner_kind == "ReplicaSet" or has_min_available_annotation:
        return str(task_index or 0)
    return None
