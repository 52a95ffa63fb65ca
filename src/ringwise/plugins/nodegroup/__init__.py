"""nodegroup: queues use the groups of nodes that they name.

A node is in the group that its label `volcano.sh/nodegroup-name` names. A queue names groups
in `spec.affinity.nodeGroupAffinity` and `.nodeGroupAntiAffinity`, required or preferred, and
may have a limit for each group in the annotation `volcano.sh/nodegroup-resource-limits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ringwise.framework.amounts import Amount, Amounts, add, amounts_of, lacking
from ringwise.framework.arguments import boolean
from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import (
    ALLOCATED,
    DEALLOCATED,
    NODE_FILTER,
    NODE_PREFERENCE,
    NodeFilter,
)
from ringwise.framework.job import Job
from ringwise.framework.preferred_nodes import ScoredNodes, scored_nodes
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.plugins.nodegroup.reasons import (
    NODE_GROUP_LIMIT,
    NODE_GROUP_LIMITS_INVALID,
    NODE_GROUP_MISMATCH,
    NODE_GROUP_MISSING,
    NODE_GROUP_NOT_SPECIFIED,
)
from ringwise.reasons import Reason
from ringwise.state.model import ROOT_QUEUE, NodeGroupAffinity, Pod, Queue
from ringwise.wellknown import NODE_GROUP_LIMITS, NODE_GROUP_NAME

STRICT = boolean("strict", True, "a queue without affinity cannot use nodes without the label either")
PREFERRED_ORDER = boolean(
    "enablePreferredOrder", False, "preferred groups that are listed earlier get a higher score"
)
#: Scores of a node by what the queue says about its group.
_REQUIRED, _PREFERRED, _AVOIDED = 100.0, 50.0, -1.0


class NodeGroup:
    def __init__(self, option: PluginOption) -> None:
        self._strict = option.value(STRICT)
        self._preferred_order = option.value(PREFERRED_ORDER)
        self._by_tree = option.is_enabled("hierarchy")

    def open(self, session: Session) -> None:
        self._session = session
        self._rules: dict[str, NodeGroupAffinity | None] = {}
        self._preferences: dict[str, Sequence[ScoredNodes]] = {}
        #: What queues with limits use in each group, by queue and group. Counted when first needed.
        self._used: dict[str, dict[str, Amounts]] = {}
        session.register(NODE_FILTER, self.filter)
        session.register(NODE_PREFERENCE, self.prefer)
        session.register(ALLOCATED, partial(self._count_change, sign=1))
        session.register(DEALLOCATED, partial(self._count_change, sign=-1))

    # -- which nodes ---------------------------------------------------------------------

    def filter(self, job: Job, pod: Pod) -> NodeFilter | None:
        queue = self._session.queues.get(job.queue)
        if queue is None:
            return None
        rules = self._rules_of(queue)
        nodes = self._session.state.nodes
        requests = amounts_of(pod.cls)

        def check(number: int) -> Reason | None:
            node = nodes[number]
            if node is None:
                return None
            if queue.node_group_problem:
                return NODE_GROUP_LIMITS_INVALID(
                    queue=queue.name, problem=queue.node_group_problem, annotation=NODE_GROUP_LIMITS
                )
            group = node.labels.get(NODE_GROUP_NAME)
            reason = self._refusal(queue, rules, node.name, group)
            if reason is None and group is not None and group in queue.node_group_limits:
                reason = self._beyond_limit(queue, group, requests)
            return reason

        return check

    def _refusal(
        self, queue: Queue, rules: NodeGroupAffinity | None, node: str, group: str | None
    ) -> Reason | None:
        if group is None:
            if rules is None and not self._strict:
                return None
            return NODE_GROUP_MISSING(node=node, label=NODE_GROUP_NAME, queue=queue.name)
        if rules is None:
            return NODE_GROUP_NOT_SPECIFIED(node=node, group=group, queue=queue.name)
        if _is_allowed(rules, group):
            return None
        return NODE_GROUP_MISMATCH(node=node, group=group, queue=queue.name)

    def _rules_of(self, queue: Queue) -> NodeGroupAffinity | None:
        """The rules of the queue; in a tree, of the nearest queue above that has some."""
        if queue.name not in self._rules:
            rules = queue.node_groups
            above: Queue | None = queue
            passed = {queue.name}
            while self._by_tree and rules is None and above is not None and above.name != ROOT_QUEUE:
                above = self._session.queues.get(above.parent or ROOT_QUEUE)
                if above is None or above.name in passed:
                    break
                passed.add(above.name)
                rules = above.node_groups
            self._rules[queue.name] = rules
        return self._rules[queue.name]

    # -- how much ------------------------------------------------------------------------

    def _beyond_limit(self, queue: Queue, group: str, requests: Mapping[str, Amount]) -> Reason | None:
        limit = queue.node_group_limits[group]
        used = self._used_by(queue).get(group, {})
        over = lacking(requests, used, limit)
        if not over:
            return None
        name = over[0]
        return NODE_GROUP_LIMIT(
            queue=queue.name,
            group=group,
            resource=name,
            used=used.get(name, 0),
            asked=requests[name],
            limit=limit[name],
        )

    def _used_by(self, queue: Queue) -> dict[str, Amounts]:
        result = self._used.get(queue.name)
        if result is None:
            result = self._used[queue.name] = {}
            placements, usage = self._session.state.pods, self._session.usage
            for job in self._session.jobs.values():
                if job.queue != queue.name and not usage.bound_in:
                    continue
                for uid, pod in job.pods.items():
                    if placements[uid].node >= 0 and usage.queue_of(uid, job.queue) == queue.name:
                        self._count(result, placements[uid].node, pod, 1)
        return result

    def _count(self, used: dict[str, Amounts], number: int, pod: Pod, sign: int) -> None:
        node = self._session.state.nodes[number]
        group = node.labels.get(NODE_GROUP_NAME) if node is not None else None
        if group is not None:
            add(used.setdefault(group, {}), amounts_of(pod.cls), sign)

    def _count_change(self, job: Job, pod: Pod, node: int, sign: int) -> None:
        used = self._used.get(self._session.usage.queue_of(pod.uid, job.queue))
        if used is not None:
            self._count(used, node, pod, sign)

    # -- scores --------------------------------------------------------------------------

    def prefer(self, job: Job, pod: Pod) -> Sequence[ScoredNodes]:
        queue = self._session.queues.get(job.queue)
        rules = self._rules_of(queue) if queue is not None else None
        if queue is None or rules is None:
            return ()
        if queue.name not in self._preferences:
            self._preferences[queue.name] = self._scores(rules)
        return self._preferences[queue.name]

    def _scores(self, rules: NodeGroupAffinity) -> Sequence[ScoredNodes]:
        groups = {*rules.required, *rules.preferred, *rules.anti_preferred}
        by_group = {group: self.score(rules, group) for group in groups if _is_allowed(rules, group)}
        if len(set(by_group.values())) < 2:
            # All nodes that the queue may use score the same: there is nothing to prefer.
            return ()
        state = self._session.state
        scores: dict[int, float] = {}
        for number in state.existing_nodes():
            node = state.nodes[number]
            group = node.labels.get(NODE_GROUP_NAME) if node is not None else None
            if group is not None and group in by_group:
                scores[number] = by_group[group]
        return (scored_nodes(scores, state.labels.existing),)

    def score(self, rules: NodeGroupAffinity, group: str) -> float:
        """The score of a node of the group."""
        if group in rules.anti_preferred:
            return _AVOIDED
        score = 0.0
        if group in rules.required:
            score += _REQUIRED
        if group in rules.preferred:
            place, count = rules.preferred.index(group), len(rules.preferred)
            score += _PREFERRED * (count - place) / count if self._preferred_order else _PREFERRED
        return score


def _is_allowed(rules: NodeGroupAffinity, group: str) -> bool:
    """Affinity allows, required anti-affinity forbids, preferred anti-affinity allows again."""
    allowed = group in rules.required or group in rules.preferred
    if group in rules.anti_required:
        allowed = False
    return allowed or group in rules.anti_preferred


SPEC = PluginSpec(
    "nodegroup",
    "restricts queues to their node groups; with enableHierarchy also to those of their parent queues",
    NodeGroup,
    (STRICT, PREFERRED_ORDER),
)
