"""One count of the nodes in sentence, table, condition and document; near misses are selected nodes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.selectors import FORBIDDING, matches_labels, tolerates
from ringwise.messages.commands import Command, SetGroupStatus
from ringwise.reasons import Reason
from ringwise.scheduler.explain.why import Explanation, explain
from ringwise.state.model import (
    DeviceReport,
    Isolation,
    Node,
    NodeReport,
    NodeTerm,
    Pod,
    PodClass,
    PodGroup,
    PodTerm,
    Requirement,
    Taint,
    Toleration,
    TopologySpread,
)
from ringwise.views.explain import explanation_document
from tests.builders.values import CHIP, group, isolated, node, pod, pod_class, seen
from tests.scheduler.rig import NOW, scheduler_told

OTHER = "huawei.com/Ascend310P"
RED = Taint("tenant", "red")
PRESSURE = Taint("node.kubernetes.io/disk-pressure")
every_pod = Requirement("job", "Exists")


def gang_of(name: str, classes: list[PodClass], least: int | None = None) -> list[PodGroup | Pod]:
    labels = {"job": name}
    made = group(name, len(classes) if least is None else least, created=1)
    pods = [
        pod(f"{name}-{at}", cls=cls, group=name, created=1, labels=labels) for at, cls in enumerate(classes)
    ]
    return [made, *pods]


def counted_in(reason: Reason | None) -> dict[str, int] | None:
    return None if reason is None else reason.details.get("refusals")


def check(answer: Explanation, nodes: dict[str, Node], classes: dict[str, PodClass]) -> None:
    """Every node in one row, one count everywhere, and no near miss that the pod does not select."""
    refusals, document = answer.refusals, explanation_document(answer, NOW)
    if refusals is None:
        assert counted_in(answer.reason) is None
        return
    assert sum(refusals.counts.values()) + refusals.fits == len(nodes)
    assert document.rejected_nodes == refusals.counts
    assert document.fitting_nodes == refusals.fits
    assert refusals.examples.keys() == refusals.counts.keys()
    told = counted_in(answer.reason)
    if told is not None and answer.reason is not None:
        assert told == refusals.counts
        assert answer.reason.details["pod"] == refusals.pod
        assert answer.reason.details["nodes"] == len(nodes)
    cls = classes[refusals.pod]
    for miss in refusals.misses:
        assert is_selected(cls, nodes[miss.node]), (miss, cls)


def is_selected(cls: PodClass, node: Node) -> bool:
    """Written down a second time, from the meaning of the fields."""
    if cls.resource is not None and cls.resource not in node.chips_allocatable:
        return False
    if any(node.labels.get(key) != value for key, value in cls.node_selector):
        return False
    if cls.node_terms and not any(_holds(term, node) for term in cls.node_terms):
        return False
    return all(
        taint.effect not in FORBIDDING
        or taint.key.startswith("node.kubernetes.io/")
        or tolerates(cls.tolerations, taint)
        for taint in node.taints
    )


def _holds(term: NodeTerm, node: Node) -> bool:
    named = all(node.name in one.values for one in term.fields)
    return named and (not term.labels or matches_labels(replace(term, fields=()), node.labels))


def reasons_told(commands: list[Command]) -> dict[str, Reason]:
    return {
        command.key: command.reason
        for command in commands
        if isinstance(command, SetGroupStatus) and command.reason is not None
    }


# -- what was seen -------------------------------------------------------------------------------------


def test_the_sentence_and_the_table_agree_on_a_cluster_of_two_boards() -> None:
    """Nodes of another resource, and closed ones, were other rows in the table than in the sentence."""
    told = [node(f"a-{n}", labels={"zone": "x"}) for n in range(25)]
    told += [node(f"b-{n}", 4, resource=OTHER, labels={"zone": "y"}) for n in range(5)]
    told.append(node("a-99", labels={"zone": "x"}, ready=False))
    cls = pod_class(4, node_selector=(("zone", "y"),))
    scheduler = scheduler_told(*told, gang_of("new", [cls]))
    answer = explain(scheduler.view, scheduler.view.jobs["default/new"], NOW)
    assert answer.refusals is not None
    assert answer.refusals.counts == {
        "node-selector-mismatch": 25,
        "resource-not-offered": 5,
        "node-not-ready": 1,
    }
    assert answer.sentence.endswith("node-selector-mismatch 25, resource-not-offered 5, node-not-ready 1"), (
        answer.sentence
    )
    assert answer.misses == ()


def test_near_misses_are_nodes_that_the_job_selects() -> None:
    """Of four nodes whose chips are taken the job selects one, though others have more free chips."""
    labels = {"zone": "x"}
    told: list[object] = [
        node("cordoned", labels={"zone": "y"}, unschedulable=True),
        node("elsewhere", labels={"zone": "y"}),
        node("dedicated", labels=labels, unschedulable=True, taints=(RED,)),
        node("pressed", labels=labels, taints=(PRESSURE,)),
        node("mine", labels=labels),
        pod("old", 8, on="mine", holds=tuple(range(8))),
    ]
    cls = pod_class(8, node_selector=(("zone", "x"),))
    scheduler = scheduler_told(*told, gang_of("new", [cls]))
    answer = explain(scheduler.view, scheduler.view.jobs["default/new"], NOW)
    assert [miss.node for miss in answer.misses] == ["pressed", "mine"]
    assert answer.refusals is not None
    assert answer.refusals.counts == {
        "node-selector-mismatch": 2,
        "untolerated-taint": 2,
        "node-not-wholly-free": 1,
    }
    assert "uncordon elsewhere" not in [fix.text for fix in answer.fixes]


def test_a_pod_without_chips_counts_nodes_that_are_not_ready() -> None:
    cls = PodClass(cpu_milli=1000, node_selector=(("zone", "nowhere"),))
    scheduler = scheduler_told(node("n1"), node("n2", ready=False), gang_of("new", [cls]))
    answer = explain(scheduler.view, scheduler.view.jobs["default/new"], NOW)
    assert answer.sentence.endswith("node-not-ready 1, node-selector-mismatch 1")


def test_pods_placed_after_the_one_that_failed_are_not_in_its_verdicts() -> None:
    """The pod without chips takes the processors that the first one, which is told about, saw free."""
    told: list[object] = [
        node("n1", cpu_milli=3000),
        pod("old", 1, on="n1", holds=(0,)),
    ]
    scheduler = scheduler_told(
        *told, gang_of("new", [pod_class(8, cpu_milli=2000), PodClass(cpu_milli=2000)])
    )
    answer = explain(scheduler.view, scheduler.view.jobs["default/new"], NOW)
    assert answer.refusals is not None
    assert answer.refusals.pod == "new-0"
    assert answer.refusals.counts == {"node-not-wholly-free": 1}


def test_a_node_that_a_spread_constraint_closed_for_a_while_is_counted_as_it_is_in_the_end() -> None:
    """n1 is closed to the second pod and open to the third: it took one of the four, and is full."""
    places = {"n0": "x", "n1": "x", "n2": "y", "n3": "y"}
    told = [node(name, labels={"zone": zone}, unschedulable=name == "n3") for name, zone in places.items()]
    cls = pod_class(8, spread=(TopologySpread(PodTerm("zone", (every_pod,)), 1, True),))
    scheduler = scheduler_told(*told, gang_of("new", [cls] * 4))
    answer = explain(scheduler.view, scheduler.view.jobs["default/new"], NOW)
    check(answer, {one.name: one for one in told}, {f"new-{number}": cls for number in range(4)})
    assert answer.refusals is not None
    assert (answer.refusals.pod, answer.refusals.fits) == ("new-3", 0)
    assert answer.refusals.counts == {"node-not-wholly-free": 3, "node-cordoned": 1}
    assert answer.sentence.startswith("3 of 4 pods fit; new-3 (8 x huawei.com/Ascend910) does not: ")


# -- in all clusters -----------------------------------------------------------------------------------

zones, kinds = st.sampled_from(["x", "y"]), st.sampled_from([(CHIP, 8), (CHIP, 8), (OTHER, 4)])
states = st.sampled_from(
    ["", "", "", "", "cordoned", "not ready", "isolated", "unhealthy", "red", "pressure", "no network"]
)
one_node = st.tuples(kinds, zones, states, st.integers(0, 8), st.integers(0, 3))
selectors = st.sampled_from(
    [
        (),
        (("zone", "x"),),
        (("zone", "y"),),
        (("zone", "x"), ("kubernetes.io/hostname", "n1")),
        (("accelerator-type", "none-has-it"),),
    ]
)
terms = st.sampled_from(
    [
        (),
        (),
        (NodeTerm((Requirement("zone", "NotIn", ("x",)),)),),
        (NodeTerm(fields=(Requirement("metadata.name", "In", ("n0", "n3")),)),),
    ]
)
tolerated = st.sampled_from([(), (), (Toleration("tenant", "Exists"),)])
asked = st.sampled_from([(CHIP, 1), (CHIP, 4), (CHIP, 8), (CHIP, 8), (OTHER, 1), (None, 0)])
spread_out = st.sampled_from(
    [
        (),
        (),
        (TopologySpread(PodTerm("kubernetes.io/hostname", (every_pod,)), 1, True),),
        (TopologySpread(PodTerm("zone", (every_pod,)), 1, True),),
    ]
)
apart = st.sampled_from([(), (), (), (PodTerm("kubernetes.io/hostname", (every_pod,)),)])
pod_classes = st.builds(
    lambda what, selector, term, toleration, spread, anti_affinity: PodClass(
        what[0],
        what[1],
        1000,
        node_selector=selector,
        node_terms=term,
        tolerations=toleration,
        spread=spread,
        pod_anti_affinity=anti_affinity,
    ),
    asked,
    selectors,
    terms,
    tolerated,
    spread_out,
    apart,
)
jobs = st.lists(st.lists(pod_classes, min_size=1, max_size=5), min_size=1, max_size=3)


def _events(
    drawn: list[tuple[tuple[str, int], str, str, int, int]],
) -> tuple[list[object], dict[str, Node]]:
    told: list[object] = []
    nodes: dict[str, Node] = {}
    entries: list[Isolation] = []
    for number, ((resource, chips), zone, state, held, broken) in enumerate(drawn):
        name = f"n{number}"
        taints = {"red": (RED,), "pressure": (PRESSURE,)}.get(state, ())
        nodes[name] = node(
            name,
            chips,
            resource=resource,
            labels={"zone": zone, "kubernetes.io/hostname": name},
            unschedulable=state == "cordoned",
            ready=state != "not ready",
            taints=taints,
            cpu_milli=3000,
        )
        told.append(nodes[name])
        unhealthy = (1 << min(broken, chips)) - 1
        network = None if state == "no network" else 0
        free = (1 << chips) - 1 & ~unhealthy
        told.append(DeviceReport(name, resource, free, unhealthy, network))
        if state == "isolated":
            entries.append(Isolation(name))
        if state == "unhealthy":
            told.append(NodeReport(name, "node", "UnHealthy"))
        if 0 < held <= chips - broken:
            chips_held = tuple(range(broken, broken + held))
            told.append(pod(f"r{number}", held, resource=resource, on=name, holds=chips_held))
    return [*told, isolated(*entries)], nodes


@given(st.lists(one_node, min_size=1, max_size=7), jobs)
def test_every_node_is_in_one_row_and_every_place_has_the_same_count(
    drawn: list[tuple[tuple[str, int], str, str, int, int]], wanted: list[list[PodClass]]
) -> None:
    told, nodes = _events(drawn)
    gangs = [gang_of(f"job{number}", one) for number, one in enumerate(wanted)]
    scheduler = scheduler_told()
    commands = scheduler.handle(seen(*told, *gangs), NOW)
    written = reasons_told(commands)
    for number, classes in enumerate(wanted):
        job = scheduler.view.jobs[f"default/job{number}"]
        if job.reason is None:
            continue
        # The condition of the PodGroup, and so its event, has the reason of the cycle.
        if job.key in written:
            assert written[job.key] == job.reason
        decided = counted_in(job.reason)
        if decided is not None:
            assert sum(decided.values()) == len(nodes)
        answer = explain(scheduler.view, job, NOW)
        check(answer, nodes, {f"job{number}-{place}": cls for place, cls in enumerate(classes)})
