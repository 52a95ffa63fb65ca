"""HyperNodes as documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from ringwise.scheduler.view import SchedulerView
from ringwise.state.hyper_nodes import Forest
from ringwise.state.model import HyperNode, Requirement
from ringwise.topology.natural import natural_key
from ringwise.views.cluster import JobView

if TYPE_CHECKING:
    from ringwise.views.documents.hyper_nodes import (
        HyperNodeFields,
        HyperNodeJobFields,
        HyperNodeMemberFields,
    )


def hyper_node_documents(view: SchedulerView, some: Iterable[HyperNode]) -> Iterator[HyperNodeFields]:
    """Tree by tree, each HyperNode before those below it."""
    forest = view.hyper_forest()
    trees = chain.from_iterable((top, *forest.domains_below(top.name)) for top in forest.tops)
    place = {domain.name: number for number, domain in enumerate(trees)}
    wanted = sorted(some, key=lambda one: (place.get(one.name, len(place)), natural_key(one.name)))
    return (_fields(forest, one) for one in wanted)


def hyper_node_members(one: HyperNode) -> list[HyperNodeMemberFields]:
    return [
        {
            "type": "HyperNode" if member.hyper_node else "Node",
            "selector": "exactMatch" if member.name else "regexMatch" if member.pattern else "labelMatch",
            "value": member.name or member.pattern or _selector_text(member.selector or ()),
        }
        for member in one.members
    ]


def _selector_text(selector: Iterable[Requirement]) -> str:
    return ", ".join(
        f"{one.key}={one.values[0]}"
        if one.operator == "In" and len(one.values) == 1
        else " ".join(filter(None, (one.key, one.operator, ", ".join(one.values))))
        for one in selector
    )


def jobs_inside(view: SchedulerView, jobs: Iterable[JobView], nodes: int) -> list[HyperNodeJobFields]:
    """The jobs with pods on these nodes."""
    placements = view.cluster.pods
    result: list[HyperNodeJobFields] = []
    for job in jobs:
        places = (placements[pod.uid].node for pod in job.pods if pod.live and pod.uid in placements)
        inside = sum(node >= 0 and nodes >> node & 1 for node in places)
        if inside:
            result.append({**job.document(), "pods_inside": inside})
    return result


def _fields(forest: Forest, one: HyperNode) -> HyperNodeFields:
    domain, problems = forest.domains.get(one.name), forest.problems.get(one.name, ())
    partial = any(not problem.mild for problem in problems)
    return {
        "name": one.name,
        "tier": one.tier,
        "tier_name": one.tier_name or None,
        "parent": None if domain is None else domain.parent or None,
        "nodes": 0 if domain is None else domain.nodes.bit_count(),
        "state": "invalid" if domain is None else "partial" if partial else "valid",
        "problems": [{"kind": problem.kind.value, "message": problem.text} for problem in problems],
    }
