"""Switch-aware jobs (S1 to S13): translates between the session and the switch rules of `placement`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ringwise.framework.extension_points import JobPlan
from ringwise.framework.gangs.ranks import ranks_of
from ringwise.framework.gangs.switch_use import switch_job, switch_mark
from ringwise.framework.job import Job
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.retry_scope import RetryScope
from ringwise.framework.session import Session
from ringwise.grammar import counted
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.planning import plan_at_least
from ringwise.placement.switches.positions import PodPosition
from ringwise.placement.switches.reschedule import reschedule
from ringwise.placement.switches.states import (
    SwitchFacts,
    SwitchJob,
    SwitchState,
    as_version1,
    switch_states,
)
from ringwise.placement.switches.view import (
    PlanEntry,
    SwitchPlan,
    SwitchRequest,
    SwitchSettings,
    TopologyView,
    index_nodes,
    make_view,
)
from ringwise.plugins.topology910.candidates import candidates
from ringwise.reasons import Reason
from ringwise.state.model import Pod
from ringwise.topology.reasons import TOPOLOGY_MISSING
from ringwise.topology.superpods import NodeId
from ringwise.topology.switches import ResolvedTopology
from ringwise.wellknown import IS_HEALTHY, IS_SHARED_TOR, SHARED_TOR_IP, TOR_AFFINITY


class SwitchPlanner:
    """Keeps the state of the switches for one cycle, and plans jobs by the rules."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: Marks of pods placed in this cycle: their annotations are not on the pods yet.
        self.marks: dict[str, int] = {}
        self._placed: dict[str, SwitchJob | None] | None = None
        self._states: list[SwitchFacts] | None = None

    def changed(self, job: Job) -> None:
        """Pods of this job were placed or removed."""
        if self._placed is not None and job.labels.get(TOR_AFFINITY):
            self._placed.pop(job.key, None)
            self._states = None

    def plan(self, job: Job, policy: ChipPolicy, pods: Sequence[Pod]) -> JobPlan | Reason:
        resolved = self._session.topology.switches(self._session.state)
        if resolved is None:
            return TOPOLOGY_MISSING(origin="no ConfigMap kube-system/basic-tor-node-cm")
        pending = [pod for pod in pods if pod.cls.chips]
        return (
            _Placement(self, self._session, resolved, job, policy, pending).plan() if pending else JobPlan({})
        )

    # -- which switches are in use -----------------------------------------------------

    def states(self, resolved: ResolvedTopology) -> list[SwitchFacts]:
        """S2: from the live pods alone, so they heal by themselves and survive a restart."""
        session = self._session
        if self._placed is None:
            self._placed = {}
        if self._states is None:
            for job in session.jobs.values():
                if job.labels.get(TOR_AFFINITY) and job.key not in self._placed:
                    self._placed[job.key] = switch_job(
                        job, session.state, resolved, session.settings, self.mark_of
                    )
            placed = (one for one in self._placed.values() if one is not None)
            switches = len(resolved.topology.switches)
            self._states = switch_states(switches, placed, session.settings.shared_tor_num)
        return self._states

    def mark_of(self, pod: Pod) -> int:
        mark = self.marks.get(pod.uid)
        return switch_mark(pod.annotations) if mark is None else mark


class _Placement:
    """The pending pods of one job, its pods that stay, and how the switches look to it."""

    def __init__(
        self,
        planner: SwitchPlanner,
        session: Session,
        resolved: ResolvedTopology,
        job: Job,
        policy: ChipPolicy,
        pending: list[Pod],
    ) -> None:
        self._planner = planner
        self._session = session
        self._resolved = resolved
        self._job = job
        self._policy = policy
        self._ranks = ranks_of(job)
        self._pending = sorted(pending, key=lambda pod: self._ranks[pod.uid])
        self._usable = candidates(session, job, self._pending)
        self._survivors = self._pods_that_stay()
        #: By uid of pending pods that return to their previous node: the node and its position.
        self._returning = self._previous_nodes()

    def plan(self) -> JobPlan | Reason:
        answer = self._answer()
        scope = self._session.retry_scope
        if isinstance(answer, Reason) and self._returning and not self._survivors and scope is RetryScope.ANY:
            # No pod of the job is left, so its previous nodes no longer count.
            self._returning = {}
            answer = self._answer()
        return answer if isinstance(answer, Reason) else self._as_plan(answer)

    def _answer(self) -> SwitchPlan | Reason:
        job, pending, usable = self._job, self._pending, self._usable
        missing = [pod for pod in pending if pod.uid not in self._returning]
        staying = [*self._survivors, *(seat for _, seat in self._returning.values())]
        failed = [self._lost_seat(pod) for pod in missing]
        free = usable.open_to(missing) - {node for node, _ in self._returning.values()}
        if staying and self._session.retry_scope is RetryScope.OWN:
            own, names = {seat.switch for seat in (*staying, *failed)}, self._session.state.names
            free = {node for node in free if self._resolved.switch_of.get(names[int(node)], -1) in own}
        view = self._view(free)
        nodes = [node for switch in view.switches for node in switch.free]
        classes = usable.classes({self._ranks[pod.uid]: pod for pod in missing}, nodes)
        request = SwitchRequest(SwitchClass(self._policy.switch_class), job.chip_pod_count, classes)
        if staying:
            least = len(missing)
            answer = reschedule(view, request, staying, failed)
        else:
            without_chips = sum(1 for pod in job.pods.values() if not pod.cls.chips)
            least = min(len(pending), max(1, job.min_available - without_chips))
            answer = plan_at_least(view, replace(request, pods=len(pending)), least)
        if isinstance(answer, Reason) and classes is not None:
            return usable.explain(answer, nodes, least, "under leaf switches")
        return answer

    def _view(self, free: Collection[NodeId]) -> TopologyView:
        session, settings = self._session, self._session.settings
        flags = bytearray(len(session.state.names))
        for node in free:
            flags[int(node)] = 1
        indexed = session.topology.indexed_switches(session.state)
        return make_view(
            indexed or index_nodes(self._resolved, session.state.node_id),
            flags,
            self._planner.states(self._resolved),
            SwitchSettings(settings.nslb_version, settings.shared_tor_num, settings.single_switch_first),
        )

    # -- after a fault (S9) -------------------------------------------------------------------

    def _pods_that_stay(self) -> list[PodPosition]:
        """Not those that a backup is placed for now (hot switch), nor other backups."""
        job, state = self._job, self._session.state
        replaced = {job.backups[pod.uid] for pod in self._pending if pod.uid in job.backups}
        return [
            self._seat(state.names[state.pods[uid].node], self._ranks[uid], self._planner.mark_of(pod))
            for uid, pod in job.pods.items()
            if pod.cls.chips
            and state.pods[uid].node >= 0
            and not pod.deleting
            and uid not in replaced
            and uid not in job.backups
        ]

    def _previous_nodes(self) -> dict[str, tuple[int, PodPosition]]:
        """Pending pods whose previous node is healthy and free: they return to it."""
        ids, returned = self._session.state.node_id, set[int]()
        seats: dict[str, tuple[int, PodPosition]] = {}
        for pod in self._pending:
            rank = self._ranks[pod.uid]
            previous = self._job.previous_nodes.get(rank)
            if previous is None or previous.faulty:
                continue
            node = ids.get(previous.node)
            if node is not None and node not in returned and self._usable.takes(node, pod):
                seats[pod.uid] = node, self._seat(previous.node, rank, switch_mark(previous.annotations))
                returned.add(node)
        return seats

    def _lost_seat(self, pod: Pod) -> PodPosition:
        job, state, rank = self._job, self._session.state, self._ranks[pod.uid]
        source = job.backups.get(pod.uid)
        if source is not None:
            node = state.names[state.pods[source].node]
            return self._seat(node, rank, self._planner.mark_of(job.pods[source]))
        previous = job.previous_nodes.get(rank)
        if previous is None:
            return PodPosition(rank)
        return self._seat(previous.node, rank, switch_mark(previous.annotations))

    def _seat(self, node: str, rank: int, mark: int) -> PodPosition:
        place, switch = self._resolved.server_of.get(node), self._resolved.switch_of.get(node)
        return PodPosition(rank, switch, None if place is None else place.index, mark)

    # -- the answer ---------------------------------------------------------------------------

    def _as_plan(self, answer: SwitchPlan) -> JobPlan:
        by_rank = {self._ranks[pod.uid]: pod for pod in self._pending if pod.uid not in self._returning}
        in_order = iter(sorted(by_rank))
        plan = JobPlan({}, lines=tuple(map(self._line, answer.entries)))
        version, single_layer = self._session.settings.nslb_version, self._resolved.topology.single_layer
        for entry in answer.entries:
            notes = switch_annotations(entry, version, single_layer)
            for node, rank in zip(entry.nodes, entry.ranks or in_order, strict=False):
                self._note(plan, by_rank[rank].uid, node, entry.mark, notes)
        for uid, (node, seat) in self._returning.items():
            notes = dict(self._job.previous_nodes[self._ranks[uid]].annotations)
            self._note(plan, uid, node, seat.mark, notes)
        return plan

    def _line(self, entry: PlanEntry) -> str:
        state, healthy, job = entry.state, entry.healthy, self._job
        if self._session.settings.nslb_version != "2.0":
            # S8: there are no marks, the jobs alone make a switch idle or not; as it is drawn.
            facts = as_version1(self._planner.states(self._resolved)[entry.switch])
            padding = job.policy is not None and job.policy.switch_class == SwitchClass.PADDING.value
            state, healthy = (facts.state if padding else SwitchState.EXCLUSIVE), True
        health = "" if healthy else ", unhealthy"
        return f"{entry.name}: {counted(entry.nodes, 'node')}, {entry.taken_by}; then {state.word}{health}"

    def _note(self, plan: JobPlan, uid: str, node: int, mark: int, annotations: dict[str, str]) -> None:
        plan.nodes[uid] = node
        plan.annotations[uid] = annotations
        self._planner.marks[uid] = mark


def switch_annotations(entry: PlanEntry, version: str, single_layer: bool = False) -> dict[str, str]:
    """Rule S2: how the pod's switch was taken. Version 1.0 and single layer write none."""
    if version != "2.0" or single_layer:
        return {}
    annotations = {
        IS_SHARED_TOR: str(entry.mark),
        IS_HEALTHY: "0" if entry.healthy or entry.mark != SwitchState.SHARED else "1",
    }
    if entry.mark == SwitchState.SHARED:
        annotations[SHARED_TOR_IP] = entry.name
    return annotations
