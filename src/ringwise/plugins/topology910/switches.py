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
from ringwise.plugins.topology910.candidates import Candidates, candidates
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
        self._marks: dict[str, int] = {}
        self._placed: dict[str, SwitchJob | None] | None = None
        self._states: list[SwitchFacts] | None = None

    def changed(self, job: Job) -> None:
        """Pods of this job were placed or removed."""
        if self._placed is not None and job.labels.get(TOR_AFFINITY):
            self._placed.pop(job.key, None)
            self._states = None

    def plan(self, job: Job, policy: ChipPolicy, pods: Sequence[Pod]) -> JobPlan | Reason:
        session = self._session
        resolved = session.topology.switches(session.state)
        if resolved is None:
            return TOPOLOGY_MISSING(origin="no ConfigMap kube-system/basic-tor-node-cm")
        pending = [pod for pod in pods if pod.cls.chips]
        if not pending:
            return JobPlan({})
        ranks = ranks_of(job)
        pending.sort(key=lambda pod: ranks[pod.uid])
        usable = candidates(session, job, pending)
        replaced = {job.backups[pod.uid] for pod in pending if pod.uid in job.backups}
        seats = self._survivors(job, resolved, ranks, replaced)
        previous = self._previous_nodes(job, ranks, pending, usable, resolved)
        answer = self._answer(job, policy, resolved, pending, ranks, usable, seats, previous)
        if isinstance(answer, Reason) and previous and not seats and session.retry_scope is RetryScope.ANY:
            # No pod of the job is left: it is placed anew.
            previous = {}
            answer = self._answer(job, policy, resolved, pending, ranks, usable, seats, previous)
        if isinstance(answer, Reason):
            return answer
        return self._as_plan(resolved, answer, pending, ranks, previous, job)

    def _answer(
        self,
        job: Job,
        policy: ChipPolicy,
        resolved: ResolvedTopology,
        pending: list[Pod],
        ranks: dict[str, int],
        usable: Candidates,
        seats: list[PodPosition],
        previous: dict[str, tuple[int, PodPosition]],
    ) -> SwitchPlan | Reason:
        held = {node for node, _ in previous.values()}
        missing = [pod for pod in pending if pod.uid not in previous]
        staying = [*seats, *(seat for _, seat in previous.values())]
        failed = [self._lost_seat(job, resolved, pod, ranks[pod.uid]) for pod in missing]
        free = usable.open_to(missing) - held
        if staying and self._session.retry_scope is RetryScope.OWN:
            own = {seat.switch for seat in (*staying, *failed)}
            names = self._session.state.names
            free = {node for node in free if resolved.switch_of.get(names[int(node)], -1) in own}
        view = self._view(resolved, free)
        nodes = [node for switch in view.switches for node in switch.free]
        classes = usable.classes({ranks[pod.uid]: pod for pod in missing}, nodes)
        request = SwitchRequest(SwitchClass(policy.switch_class), job.chip_pod_count, classes)
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

    def _view(self, resolved: ResolvedTopology, free: Collection[NodeId]) -> TopologyView:
        session = self._session
        flags = bytearray(len(session.state.names))
        for node in free:
            flags[int(node)] = 1
        settings = session.settings
        return make_view(
            session.topology.indexed_switches(session.state) or index_nodes(resolved, session.state.node_id),
            flags,
            self.states(resolved),
            SwitchSettings(settings.nslb_version, settings.shared_tor_num, settings.single_switch_first),
        )

    # -- which switches are in use -----------------------------------------------------

    def states(self, resolved: ResolvedTopology) -> list[SwitchFacts]:
        """S2: from the live pods alone, so they heal by themselves and survive a restart."""
        if self._placed is None:
            self._placed = {}
        if self._states is None:
            for job in self._session.jobs.values():
                if job.labels.get(TOR_AFFINITY) and job.key not in self._placed:
                    self._placed[job.key] = switch_job(
                        job, self._session.state, resolved, self._session.settings, self._mark
                    )
            self._states = switch_states(
                len(resolved.topology.switches),
                (placed for placed in self._placed.values() if placed is not None),
                self._session.settings.shared_tor_num,
            )
        return self._states

    def _mark(self, pod: Pod) -> int:
        mark = self._marks.get(pod.uid)
        return switch_mark(pod.annotations) if mark is None else mark

    # -- after a fault (S9) -------------------------------------------------------------------

    def _survivors(
        self, job: Job, resolved: ResolvedTopology, ranks: dict[str, int], replaced: Collection[str]
    ) -> list[PodPosition]:
        """Pods that stay: not those that a backup is placed for now (hot switch), nor other backups."""
        state = self._session.state
        return [
            self._seat(resolved, state.names[state.pods[uid].node], ranks[uid], self._mark(pod))
            for uid, pod in job.pods.items()
            if pod.cls.chips
            and state.pods[uid].node >= 0
            and not pod.deleting
            and uid not in replaced
            and uid not in job.backups
        ]

    def _previous_nodes(
        self,
        job: Job,
        ranks: dict[str, int],
        pending: list[Pod],
        usable: Candidates,
        resolved: ResolvedTopology,
    ) -> dict[str, tuple[int, PodPosition]]:
        """Pending pods whose previous node is healthy and free: they return to it."""
        ids = self._session.state.node_id
        returned: set[int] = set()
        seats: dict[str, tuple[int, PodPosition]] = {}
        for pod in pending:
            previous = job.previous_nodes.get(ranks[pod.uid])
            node = None if previous is None or previous.faulty else ids.get(previous.node)
            if previous is not None and node is not None and node not in returned and usable.takes(node, pod):
                mark = switch_mark(previous.annotations)
                seats[pod.uid] = (node, self._seat(resolved, previous.node, ranks[pod.uid], mark))
                returned.add(node)
        return seats

    def _lost_seat(self, job: Job, resolved: ResolvedTopology, pod: Pod, rank: int) -> PodPosition:
        source = job.backups.get(pod.uid)
        if source is not None:
            node = self._session.state.names[self._session.state.pods[source].node]
            return self._seat(resolved, node, rank, self._mark(job.pods[source]))
        previous = job.previous_nodes.get(rank)
        if previous is None:
            return PodPosition(rank)
        return self._seat(resolved, previous.node, rank, switch_mark(previous.annotations))

    @staticmethod
    def _seat(resolved: ResolvedTopology, node: str, rank: int, mark: int) -> PodPosition:
        place = resolved.server_of.get(node)
        return PodPosition(rank, resolved.switch_of.get(node), None if place is None else place.index, mark)

    # -- the answer ---------------------------------------------------------------------------

    def _as_plan(
        self,
        resolved: ResolvedTopology,
        answer: SwitchPlan,
        pending: list[Pod],
        ranks: dict[str, int],
        previous: dict[str, tuple[int, PodPosition]],
        job: Job,
    ) -> JobPlan:
        by_rank = {ranks[pod.uid]: pod for pod in pending if pod.uid not in previous}
        in_order = [by_rank[rank] for rank in sorted(by_rank)]
        plan = JobPlan({}, lines=tuple(self._line(entry, resolved, job) for entry in answer.entries))
        following = 0
        for entry in answer.entries:
            notes = switch_annotations(
                entry, self._session.settings.nslb_version, resolved.topology.single_layer
            )
            for position, node in enumerate(entry.nodes):
                pod = by_rank[entry.ranks[position]] if entry.ranks else in_order[following]
                following += 1
                self._note(plan, pod, node, entry.mark, notes)
        for uid, (node, seat) in previous.items():
            notes = dict(job.previous_nodes[ranks[uid]].annotations)
            self._note(plan, job.pods[uid], node, seat.mark, notes)
        return plan

    def _line(self, entry: PlanEntry, resolved: ResolvedTopology, job: Job) -> str:
        state, healthy = entry.state, entry.healthy
        if self._session.settings.nslb_version != "2.0":
            # S8: there are no marks, the jobs alone make a switch idle or not; as it is drawn.
            facts = as_version1(self.states(resolved)[entry.switch])
            padding = job.policy is not None and job.policy.switch_class == SwitchClass.PADDING.value
            state, healthy = (facts.state if padding else SwitchState.EXCLUSIVE), True
        health = "" if healthy else ", unhealthy"
        return f"{entry.name}: {counted(entry.nodes, 'node')}, {entry.taken_by}; then {state.word}{health}"

    def _note(self, plan: JobPlan, pod: Pod, node: int, mark: int, annotations: dict[str, str]) -> None:
        plan.nodes[pod.uid] = node
        plan.annotations[pod.uid] = annotations
        self._marks[pod.uid] = mark


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
