"""topology910: chips, rings, leaf switches, SuperPoDs and racks.

The four functions of the documents are here, by their names:

- `valid_job` (validJobFn): whether the job may request this at all (N1, N2). Selects its board.
- `predicate` (AddPredicateFn): which nodes cannot serve the board. Whether a node's free
  chips fit is not checked node by node: nodes that do not fit are not in the view's order.
- the order of nodes (AddBatchNodeOrderFn, N3): the view of the board's rule, best score first,
  see `ringwise.state.index`. For jobs placed as a whole, `plan` names the nodes.
- `allocated` and `deallocated` (AddEventHandler): the chips themselves are taken by the
  statement at once; what remains here is which switches are in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ringwise.durations import duration_text, time_text
from ringwise.framework.extension_points import (
    ALLOCATED,
    DEALLOCATED,
    DOMAINS,
    JOB_ENQUEUEABLE,
    JOB_PLAN,
    JOB_VALID,
    NODE_FILTER,
    PREDICATE,
    JobPlan,
    NodeFilter,
    Vote,
)
from ringwise.framework.job import Job
from ringwise.framework.network_topology import combined_with
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.placement.reasons import NODE_LABEL_MISSING
from ringwise.plugins.topology910.backups import plan_backups
from ringwise.plugins.topology910.parts import check_parts, requests_parts
from ringwise.plugins.topology910.reasons import CLUSTER_TOO_SMALL, NODE_SUB_HEALTHY, TOO_FEW_FREE_CHIPS
from ringwise.plugins.topology910.switches import SwitchPlanner
from ringwise.plugins.topology910.validity import plain_key, policy_of
from ringwise.reasons import Reason
from ringwise.state.model import NodeReservation, Pod, PodClass
from ringwise.state.node_shapes import NodeShape
from ringwise.state.node_windows import NodeWindow, drain_of, reservations_of, withheld
from ringwise.state.reasons import NODE_DRAINS, NODE_RESERVED
from ringwise.topology.policy import SOFT_SHARE_POLICY
from ringwise.wellknown import SCHEDULE_POLICY, SUB_HEALTH_REACTIONS, SUB_HEALTHY_STRATEGY


class Topology910:
    def open(self, session: Session) -> None:
        self._session = session
        self._switches = SwitchPlanner(session)
        #: Policies of one-pod jobs without labels that matter: thousands are alike.
        self._plain: dict[tuple[int, int], ChipPolicy] = {}
        self._withheld: str | None = None
        session.register(JOB_VALID, self.valid_job)
        session.register(PREDICATE, self.predicate)
        session.register(NODE_FILTER, self.sub_healthy)
        session.register(NODE_FILTER, self.outside_windows)
        session.register(JOB_PLAN, self.plan)
        session.register(JOB_ENQUEUEABLE, self.enqueueable)
        session.register(ALLOCATED, self.allocated)
        session.register(DEALLOCATED, self.deallocated)

    def sub_healthy(self, job: Job, pod: Pod) -> NodeFilter | None:
        """A job that leaves sub-healthy nodes (`subHealthyStrategy`) does not go to them either."""
        nodes = self._session.state.sub_healthy
        strategy = job.labels.get(SUB_HEALTHY_STRATEGY, "") if nodes and pod.cls.chips else ""
        if strategy not in SUB_HEALTH_REACTIONS:
            return None

        def check(number: int) -> Reason | None:
            what = nodes.get(number)
            return None if what is None else NODE_SUB_HEALTHY(what=what, strategy=strategy)

        return check

    def outside_windows(self, job: Job, pod: Pod) -> NodeFilter | None:
        """A job does not go to a node that is drained or reserved for others before it is expected to end."""
        session = self._session
        nodes = session.state.node_windows
        if not nodes or not pod.cls.chips:
            return None
        now, runs, ends = session.now, session.run_time_of(job), session.end_of(job)
        at_most = "" if runs == job.expected else "at most "
        length = "has no expected duration" if runs is None else f"runs {at_most}{duration_text(runs)}"

        #: By window: what is the same for all of its nodes.
        details_of: dict[int, dict[str, str]] = {}

        def check(number: int) -> Reason | None:
            windows = nodes.get(number)
            window = None if windows is None else withheld(windows, job.queue, job.namespace, now, ends)
            if window is None:
                return None
            details = details_of.get(id(window))
            if details is None:
                details = details_of[id(window)] = {"length": length, **_details(window, now)}
            kind = NODE_RESERVED if isinstance(window, NodeReservation) else NODE_DRAINS
            return kind(node=session.state.names[number], **details)

        return check

    def valid_job(self, job: Job) -> Reason | None:
        """N2, S1, P1: refuse what no board allows, and set how the chips of the others are chosen."""
        if job.validated:
            return None
        if self._session.registered(DOMAINS) and (combined := combined_with(job)) is not None:
            return combined
        if requests_parts(job):
            refused = check_parts(job, self._session)
            job.validated = refused is None
            return refused
        plain = plain_key(job)
        policy = self._plain.get(plain) if plain is not None else None
        if policy is None:
            answer = policy_of(job, self._session)
            if isinstance(answer, Reason):
                return answer
            policy = answer
            if plain is not None and policy is not None:
                self._plain[plain] = policy
        job.policy = policy
        job.validated = True
        return None

    def predicate(self, pod_class: PodClass, policy: ChipPolicy | None, shape: NodeShape) -> Reason | None:
        """A board may need a label on its nodes."""
        if policy is None:
            return None
        labels = shape.node_class.labels
        for key, value in policy.board.node_labels:
            if labels.get(key) != value:
                return NODE_LABEL_MISSING(
                    board=policy.board.name, label=key, value=value, found=labels.get(key, "none")
                )
        return None

    def plan(self, job: Job, pods: Sequence[Pod]) -> JobPlan | Reason | None:
        """Jobs for switches (S), SuperPoDs (P) and racks (R) are placed as a whole; others pod by pod."""
        policy = job.policy
        if policy is None:
            return None
        # Few clusters have SuperPoDs or racks; their planners are imported for the first job that needs them.
        stands_by = bool(job.backups and pods) and all(pod.uid in job.backups for pod in pods)
        if policy.rack is not None:
            from ringwise.plugins.topology910.racks import RackPlanner, near_in_rack

            if stands_by:
                return plan_backups(self._session, job, pods, near_in_rack(self._session, policy.rack))
            return RackPlanner(self._session, job, policy, policy.rack, pods).plan()
        if policy.block_nodes is not None:
            from ringwise.plugins.topology910.superpods import SuperPodPlanner, near_in_superpod

            if stands_by:
                return plan_backups(self._session, job, pods, near_in_superpod(self._session))
            return SuperPodPlanner(self._session, job, policy, pods).plan()
        if policy.switch_class is not None:
            return self._switches.plan(job, policy, pods)
        return None

    def enqueueable(self, job: Job) -> tuple[Vote, Reason | None]:
        """Admit a job once the cluster has as many free chips as it needs at once."""
        resources = self._chip_resources(job)
        if not resources:
            return Vote.ABSTAIN, None
        requests = job.min_requested()
        used = self._session.usage.used_by_job(job.key)
        for resource in resources:
            # A job of which a part runs already needs the rest only.
            needed = requests.get(resource, 0) - used.get(resource, 0)
            fleet = self._session.state.fleets.get(resource)
            free = 0 if fleet is None else fleet.free_total
            if free < needed:
                there = 0 if fleet is None else fleet.healthy_total
                if there < needed:
                    return Vote.REJECT, CLUSTER_TOO_SMALL(
                        needed=needed, all=there, missing=needed - there, resource=resource
                    )
                reason = TOO_FEW_FREE_CHIPS(needed=needed, free=free, resource=resource)
                if free and (kinds := self._withheld_nodes()):
                    reason = reason.with_hints((f"chips of nodes that are {kinds} are included",))
                return Vote.REJECT, reason.with_hints(() if fleet is None else _closed(fleet.closed_counts))
        return (Vote.PERMIT if self._session.settings.force_enqueue else Vote.ABSTAIN), None

    def _withheld_nodes(self) -> str:
        """Which nodes have free chips that not every job may have; nodes are read once in a session."""
        if self._withheld is None:
            state = self._session.state
            windows = [one for of_node in state.node_windows.values() for one in of_node]
            kinds = {
                "cordoned": any(node and node.unschedulable for node in state.nodes),
                "draining": drain_of(windows) is not None,
                "reserved": bool(reservations_of(windows)),
            }
            self._withheld = " and ".join(kind for kind, exists in kinds.items() if exists)
        return self._withheld

    def _chip_resources(self, job: Job) -> list[str]:
        """The chips that the job asks for; those in `minResources` while its pods are not known."""
        if job.policy is not None:
            return [job.policy.resource]
        if job.pods or job.prospective or job.group is None:
            return []
        if job.group.annotations.get(SCHEDULE_POLICY) == SOFT_SHARE_POLICY:
            return []
        catalog = self._session.topology.catalog
        return [name for name, amount in job.group.min_resources.items() if amount and catalog.serving(name)]

    def allocated(self, job: Job, pod: Pod, node: int) -> None:
        self._switches.changed(job)

    def deallocated(self, job: Job, pod: Pod, node: int) -> None:
        self._switches.changed(job)


def _details(window: NodeWindow, now: int) -> dict[str, str]:
    """Of the reason why a node is kept from a job."""
    start = window.start or 0
    if isinstance(window, NodeReservation):
        by = f" by {window.by}" if window.by else ""
        times = {"start": time_text(start), "end": time_text(window.end)}
        return {"holder": window.holder, "name": window.name, "by": by, **times}
    return {"when": "at" if now < start else "since", "time": time_text(start), **window.details}


def _closed(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Chips of these nodes are idle, and not free: the user gets the reason."""
    listed = ", ".join(f"{code} {counts[code]}" for code in sorted(counts))
    return (f"nodes that do not accept new pods: {listed}",) if listed else ()


SPEC = PluginSpec(
    "topology910",
    "assigns chips, by rings, switches and SuperPoDs",
    lambda option: Topology910(),
    # The names of the builds of Huawei's plugin (K).
    alias_prefix="volcano-npu",
    gives_chips=True,
)
