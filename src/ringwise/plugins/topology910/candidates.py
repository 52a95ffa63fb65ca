"""The candidate nodes of a job that is placed as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.framework.gang_placement import node_filters
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.state.model import Pod


def candidates(session: Session, job: Job, pods: Sequence[Pod]) -> list[int]:
    """Nodes that fit every pending pod of the job, in natural order.

    A pod takes a node of its own, so nodes where the job already runs are left out.
    """
    taken = {session.state.pods[uid].node for uid, pod in job.pods.items() if pod.cls.chips}
    found: list[int] | None = None
    seen: set[object] = set()
    for pod in pods:
        selection = session.node_selection(job, pod)
        if selection in seen:
            continue
        seen.add(selection)
        filters = node_filters(session, job, pod)
        nodes = [
            node
            for node in selection.fitting_nodes()
            if node not in taken and all(check(node) is None for check in filters)
        ]
        found = nodes if found is None else [node for node in found if node in set(nodes)]
    return found or []
