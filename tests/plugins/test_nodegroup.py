"""nodegroup: which groups of nodes a queue may use, which it prefers, and how much of them."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import NODE_FILTER
from ringwise.framework.gangs.gang_placement import node_preferences, place_gang
from ringwise.framework.statement import Eviction
from ringwise.plugins.nodegroup import NodeGroup
from ringwise.state.model import NodeGroupAffinity
from tests.builders.session_lab import Lab, cluster

LABEL = "volcano.sh/nodegroup-name"
RULES = NodeGroupAffinity(("must",), ("nice", "fine"), ("never", "grudging"), ("grudging", "unloved"))


def plugin(hierarchy: bool = False, **arguments: Any) -> PluginOption:
    return PluginOption.of("nodegroup", {"hierarchy": hierarchy}, arguments)


def groups() -> Lab:
    lab = cluster().node("bare", cpu=8)
    for name in ("must", "nice", "fine", "never", "grudging", "unloved", "other"):
        lab.node(name, cpu=8, labels={LABEL: name})
    return lab


def refusals(lab: Lab, option: PluginOption, job: str = "job") -> dict[str, str]:
    """Node -> code of the refusal, for the nodes that are refused."""
    session = lab.session(option)
    found = {}
    (make,) = session.registered(NODE_FILTER)
    check = make(lab[job], next(iter(lab[job].pods.values())))
    assert check is not None
    for name, number in lab.state.node_id.items():
        reason = check(number)
        if reason is not None:
            found[name] = reason.code
    return found


def test_a_queue_with_rules_uses_the_groups_that_it_names() -> None:
    lab = groups().queue("q", node_groups=RULES).job("job", queue="q", cpu=1)
    expected = {"bare": "node-group-missing", "never": "node-group-mismatch", "other": "node-group-mismatch"}
    assert refusals(lab, plugin()) == expected
    # Without strict too: only queues without rules may use nodes without the label.
    assert refusals(lab, plugin(strict=False)) == expected


@pytest.mark.parametrize(("strict", "bare"), [(True, "node-group-missing"), (False, None)])
def test_a_queue_without_rules_uses_at_most_nodes_without_a_group(strict: bool, bare: str | None) -> None:
    lab = groups().queue("q").job("job", queue="q", cpu=1)
    found = refusals(lab, plugin(strict=strict))
    assert found.pop("bare", None) == bare
    assert set(found) == {"must", "nice", "fine", "never", "grudging", "unloved", "other"}
    assert set(found.values()) == {"node-group-not-specified"}


@pytest.mark.parametrize(
    ("ordered", "scores"),
    [
        (False, {"must": 100, "nice": 50, "fine": 50, "grudging": -1, "unloved": -1, "other": 0}),
        (True, {"must": 100, "nice": 50, "fine": 25, "grudging": -1, "unloved": -1, "other": 0}),
    ],
)
def test_scores(ordered: bool, scores: dict[str, float]) -> None:
    made = NodeGroup(plugin(enablePreferredOrder=ordered))
    assert {group: made.score(RULES, group) for group in scores} == scores
    assert made.score(NodeGroupAffinity(("both",), ("both",)), "both") == 150


def test_required_groups_are_filled_first() -> None:
    lab = cluster().node("a", cpu=8, labels={LABEL: "nice"}).node("b", cpu=8, labels={LABEL: "must"})
    lab.queue("q", node_groups=RULES).job("job", queue="q", cpu=1)
    session = lab.session(plugin())
    statement = session.statement()
    assert place_gang(session, lab["job"], statement) is None
    assert [lab.state.names[one.node] for one in statement.allocations] == ["b"]


def test_nothing_is_preferred_where_all_groups_of_the_queue_are_equal() -> None:
    lab = groups().queue("q", node_groups=NodeGroupAffinity(("must", "other"))).job("job", queue="q", cpu=1)
    assert node_preferences(lab.session(plugin()), lab["job"], lab.pod("job-0")) is None


def test_limits_of_a_group_count_what_the_queue_uses_there() -> None:
    lab = groups().queue(
        "q", node_groups=NodeGroupAffinity(("must", "nice")), node_group_limits={"must": {"cpu": 3}}
    )
    lab.job("runs", queue="q", cpu=2, on="must").job("elsewhere", queue="q", cpu=8, on="nice")
    lab.job("others", cpu=3, on="must")
    lab.job("job", pods=2, queue="q", cpu=1).job("large", queue="q", cpu=2)
    assert refusals(lab, plugin(), "large")["must"] == "node-group-limit"
    assert "must" not in refusals(lab, plugin())
    # The first pod of the gang counts for the second one, until the statement is discarded.
    session = lab.session(plugin(), "gang", "predicates")
    for _ in range(2):
        statement = session.statement()
        assert place_gang(session, lab["job"], statement) is not None
        statement.discard()
    # A pod that is evicted does not count.
    (make,) = session.registered(NODE_FILTER)[:1]
    check = make(lab["large"], lab.pod("large-0"))
    must = lab.state.node_id["must"]
    assert check is not None
    assert check(must) is not None
    session.statement().evict(Eviction(lab["runs"], lab.pod("runs-0"), "test", lab["runs"]))
    assert check(must) is None


def test_pods_count_for_the_queue_in_which_they_were_bound() -> None:
    limited = {"node_groups": NodeGroupAffinity(("must",)), "node_group_limits": {"must": {"cpu": 3}}}
    lab = groups().queue("q", **limited).queue("p", **limited)
    lab.job("moved", queue="p", cpu=3, on="must")
    lab.job("job", queue="q", cpu=1).job("other", queue="p", cpu=1)
    lab.usage.bound_in["moved-0"] = "q"
    assert refusals(lab, plugin())["must"] == "node-group-limit"
    assert "must" not in refusals(lab, plugin(), "other")


def test_limits_that_cannot_be_read_refuse_every_node() -> None:
    lab = groups().queue("q", node_groups=RULES, node_group_problem="it is not JSON")
    lab.job("job", queue="q", cpu=1)
    assert set(refusals(lab, plugin()).values()) == {"node-group-limits-invalid"}
    assert len(refusals(lab, plugin())) == 8


@pytest.mark.parametrize(("hierarchy", "refused"), [(False, 8), (True, 3)])
def test_in_a_tree_the_nearest_queue_above_with_rules_counts(hierarchy: bool, refused: int) -> None:
    lab = (
        groups().queue("top", node_groups=RULES).queue("middle", parent="top").queue("leaf", parent="middle")
    )
    lab.queue("circle", parent="circle").job("job", queue="leaf", cpu=1).job("lost", queue="circle", cpu=1)
    assert len(refusals(lab, plugin(hierarchy))) == refused
    assert len(refusals(lab, plugin(hierarchy), "lost")) == 8
