"""Hot switch: where a backup pod of a job with blocks or racks goes (P7, R3).

It takes over the place of a pod that still runs, so it has to be where that one is: in its SuperPoD, in its
rack. The other pods of the job do not move for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ringwise.framework.extension_points import JobPlan
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.plugins.topology910.candidates import candidates
from ringwise.plugins.topology910.reasons import BACKUP_WAITS
from ringwise.reasons import Reason
from ringwise.state.model import Pod
from ringwise.topology.superpods import NodeId
from ringwise.wellknown import LOGICAL_RACK, SUPER_POD_ID, SUPER_POD_RANK

#: What the backup takes over with the place.
_PLACE = (SUPER_POD_RANK, SUPER_POD_ID, LOGICAL_RACK)
#: The name of a place, and its nodes in the order in which they are taken; for the node of the other pod.
Near = Callable[[NodeId], tuple[str, Sequence[NodeId]]]


def plan_backups(session: Session, job: Job, pods: Sequence[Pod], near: Near) -> JobPlan | Reason:
    """Nodes for the backups that find one; a reason when none does."""
    usable = candidates(session, job, pods)
    plan, taken = JobPlan({}), set[NodeId]()
    failed: Reason | None = None
    for pod in pods:
        source = job.pods[job.backups[pod.uid]]
        where, nodes = near(session.state.pods[source.uid].node)
        node = next((node for node in nodes if node not in taken and usable.takes(node, pod)), None)
        if node is None:
            failed = failed or BACKUP_WAITS(pod=pod.name, source=source.name, where=where)
            continue
        taken.add(node)
        plan.nodes[pod.uid] = int(node)
        plan.annotations[pod.uid] = {
            key: source.annotations[key] for key in _PLACE if key in source.annotations
        }
    return plan if plan.nodes else failed or plan
