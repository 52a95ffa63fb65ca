"""Whether the nodes of a plan of moves suit its pods: asked as a cycle asks, once the pods have left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from ringwise.framework.extension_points import first_reason
from ringwise.framework.gangs.gang_placement import node_filters
from ringwise.framework.job import Job, PlannedPlace
from ringwise.framework.statement import Allocation
from ringwise.scheduler.defragment.live_plan import LivePlan, place_of
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.chips import chips_of


def unsuitable_node(view: SchedulerView, live: LivePlan, now: int) -> str:
    """Return which pod does not fit on its node, and why; empty if all fit. The chips must be free."""
    state, what_if = view.cluster, view.what_if
    with what_if.question(), ExitStack() as supposed:
        session = what_if.open_session(now)
        supposed.enter_context(session.reservations.open_to(live.plan.job))
        leaving = [uid for _, uid, _ in live.moving_pods()]
        supposed.enter_context(what_if.restarted(session, leaving))
        # What pods keep others away is found in a session where they have left.
        session = what_if.open_session(now)
        places = list(_places(view, live))
        for job in {job.key: job for job, _, _ in places}.values():
            # Its policy, without which no node is asked about, is found there, too.
            if (refused := session.job_valid(job)) is not None:
                return f"{job.full_name} could not start: {refused.message}"
        for job, uid, place in places:
            pod, node = job.pods[uid], state.node_id[place.node]
            refused = session.node_selection(job, pod).unselected(node)
            refused = refused or first_reason(node_filters(session, job, pod), node)
            if refused is not None:
                return f"{pod.key} does not fit on {place.node}: {refused.message}"
            allocation = Allocation(job, pod, node, chips_of(place.chips))
            supposed.enter_context(what_if.placed(session, [allocation]))
    return ""


def _places(view: SchedulerView, live: LivePlan) -> Iterator[tuple[Job, str, PlannedPlace]]:
    """The pods that move, then those of the job that waits. Pods without chips go wherever they fit."""
    for moving, uid, pod in live.moving_pods():
        if pod.target.chips:
            yield view.jobs[moving.job], uid, pod.target
    waiting = view.jobs[live.plan.job]
    uids = {pod.name: pod.uid for pod in waiting.in_order}
    for place in map(place_of, live.plan.room):
        if place.chips:
            yield waiting, uids[place.pod], place
