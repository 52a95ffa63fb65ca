"""How many more jobs start: equal to submitting them, and undone exactly."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.scheduler.explain.capacity import BoardCapacity, capacity
from ringwise.state.model import Device, Node, Queue
from tests.fingerprint import fingerprint, state_of
from tests.scheduler.clusters import CHIP, NOW, node, pod, report, scheduler_told, told

NPU = "huawei.com/npu"


def npu_node(name: str, **more: Any) -> ev.NodeSeen:
    chips = {NPU: 8}
    return ev.NodeSeen(
        Node(
            name,
            max_pods=110,
            chips_allocatable=chips,
            chips_capacity=chips,
            devices=tuple(Device(chip) for chip in range(8)),
            **more,
        )
    )


def jobs(answer: BoardCapacity) -> dict[str, int]:
    return {shape.form: shape.jobs for shape in answer.shapes}


def test_an_empty_cluster_has_no_stranded_chips() -> None:
    (answer,) = capacity(told(node("node-1"), node("node-2")), NOW)
    assert answer.board == "910-x8"
    assert jobs(answer) == {"1 chip": 16, "2 chips": 8, "4 chips": 4, "8 chips": 2, "2 nodes of 8": 1}
    assert {shape.stranded for shape in answer.shapes} == {0}
    assert answer.largest_gang == 2


def test_fragments_are_counted_by_shape() -> None:
    view = told(node("node-1"), pod("a", 1, on="node-1", holds=[0]), pod("b", 1, on="node-1", holds=[4]))
    (answer,) = capacity(view, NOW)
    assert jobs(answer) == {"1 chip": 6, "2 chips": 2, "4 chips": 0, "8 chips": 0, "2 nodes of 8": 0}
    assert [shape.stranded for shape in answer.shapes] == [0, 2, 6, 6, 6]


def test_chips_that_are_not_free_are_counted_by_cause() -> None:
    view = told(
        node("node-1", faulty=1),
        report("node-1", range(1, 8), unhealthy=1, network_unhealthy=0b10),
        node("node-2", unschedulable=True),
        node("node-3", ready=False),
        node("node-4"),
        pod("a", 2, on="node-4", holds=[0, 1]),
    )
    (answer,) = capacity(view, NOW)
    chips = answer.chips
    assert (chips.nodes, chips.chips, chips.used, chips.free, chips.faulty) == (4, 32, 2, 13, 1)
    assert (chips.closed, chips.network_faulty) == (16, 1)


def test_n1_boards_are_found_by_the_labels_of_nodes() -> None:
    view = told(
        node("node-1", labels={"accelerator-type": "module"}),
        node("node-2", 16, labels={"accelerator-type": "module-910b-16"}),
    )
    answers = capacity(view, NOW)
    assert [(answer.board, answer.selector, answer.chips.chips) for answer in answers] == [
        ("910-x8", "module", 8),
        ("910b-x16", "module-910b-16", 16),
    ]
    assert jobs(answers[0])["8 chips"] == 1
    assert jobs(answers[1])["16 chips"] == 1


def test_a_queue_may_allow_less() -> None:
    view = told(node("node-1"), ev.QueueSeen(Queue("small", capability={CHIP: 3})))
    (answer,) = capacity(view, NOW, "small")
    assert jobs(answer)["1 chip"] == 3
    assert jobs(answer)["4 chips"] == 0


def test_p1_blocks_stay_inside_superpods() -> None:
    labels = {"accelerator-type": "module-a3-16-super-pod"}
    view = told(*(node(f"node-{n}", 16, labels=labels, superpod=n // 5) for n in range(10)))
    (answer,) = capacity(view, NOW)
    assert answer.board == "a3-x16-superpod"
    blocks = {shape.form: (shape.jobs, shape.stranded) for shape in answer.shapes if shape.kind == "block"}
    assert blocks == {"blocks of 2 nodes": (4, 32), "blocks of 4 nodes": (2, 32)}
    assert answer.largest_gang == 5


def test_r1_blocks_on_boards_with_racks_follow_the_rack_rules() -> None:
    """Nodes in racks have a board with racks, whatever other boards serve their resource; no reserve."""
    view = told(*(npu_node(f"node-{n}", superpod=n // 5, rack=n % 2) for n in range(10)))
    (answer,) = capacity(view, NOW)
    assert answer.board == "950-x8-rack"
    blocks = {shape.form: (shape.jobs, shape.stranded) for shape in answer.shapes if shape.kind == "block"}
    assert blocks == {"blocks of 2 nodes": (4, 16), "blocks of 4 nodes": (2, 16)}
    assert answer.largest_gang == 5


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([1, 2, 4])), max_size=7),
    st.sampled_from([1, 2, 4, 8]),
)
def test_as_many_start_as_were_counted(busy: list[tuple[int, int]], size: int) -> None:
    events: list[ev.Event] = [node(f"node-{n}") for n in range(3)]
    free = {n: list(range(8)) for n in range(3)}
    for number, (where, chips) in enumerate(busy):
        taken, free[where] = free[where][:chips], free[where][chips:]
        if len(taken) == chips:
            events.append(pod(f"run-{number}", chips, on=f"node-{where}", holds=taken))
    scheduler = scheduler_told(events)
    view = scheduler.view
    (answer,) = capacity(view, NOW)
    before = fingerprint(state_of(view))
    assert capacity(view, NOW) == [answer]
    assert fingerprint(state_of(view)) == before
    counted = next(shape for shape in answer.shapes if shape.kind == "one-pod" and shape.chips == size)
    submitted = [pod(f"new-{n}", size) for n in range(counted.jobs + 3)]
    started = sum(isinstance(command, Bind) for command in scheduler.handle(submitted, NOW + 1))
    assert started == counted.jobs
