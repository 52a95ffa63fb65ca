"""The nodes on which a job that is placed as a whole could put a pod."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.framework.gang_placement import filters_of
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.state.model import Pod


def candidates(session: Session, job: Job, pods: Sequence[Pod]) -> list[int]:
    """Nodes that every waiting pod of the job could have, in natural order.

    A pod takes a node of its own, so nodes where the job already sits are left out.
    """
    taken = {session.state.pods[uid].node for uid, pod in job.pods.items() if pod.cls.chips}
    found: list[int] | None = None
    seen: set[object] = set()
    for pod in pods:
        selection = session.node_selection(job, pod)
        if selection in seen:
            continue
        seen.add(selection)
        filters = filters_of(session, job, pod)
        nodes = [
            node
            for node in selection.fitting_nodes()
            if node not in taken and all(blocks(node) is None for blocks in filters)
        ]
        found = nodes if found is None else [node for node in found if node in set(nodes)]
    return found or []
