"""How many more jobs start: equal to submitting them, and undone exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.embed.fleets import make_fleet
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages.commands import Bind
from ringwise.reasons import Stage
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.explain.capacity import BoardCapacity, JobShape, capacity
from ringwise.state.model import Pod, PodGroup, Queue
from ringwise.topology.board import Board
from ringwise.wellknown import ACCELERATOR_TYPE, SCHEDULE_POLICY, SP_BLOCK, TOR_AFFINITY
from tests.builders.values import CHIP, group, node, pod, pod_class, report, seen
from tests.examples import sample
from tests.fingerprint import fingerprint, state_of
from tests.scheduler.rig import NOW, scheduler_told, told

NPU = "huawei.com/npu"


def jobs(answer: BoardCapacity) -> dict[str, int]:
    return {shape.shape: shape.jobs for shape in answer.shapes}


def test_an_empty_cluster_has_no_stranded_chips() -> None:
    (answer,) = capacity(told(node("node-1"), node("node-2")), NOW)
    assert answer.board == "910-x8"
    assert jobs(answer) == {"1 chip": 16, "2 chips": 8, "4 chips": 4, "8 chips": 2, "2 nodes of 8": 1}
    assert {shape.stranded_chips for shape in answer.shapes} == {0}
    assert answer.largest_gang == 2


def test_fragments_are_counted_by_shape() -> None:
    view = told(node("node-1"), pod("a", 1, on="node-1", holds=[0]), pod("b", 1, on="node-1", holds=[4]))
    (answer,) = capacity(view, NOW)
    assert jobs(answer) == {"1 chip": 6, "2 chips": 2, "4 chips": 0, "8 chips": 0, "2 nodes of 8": 0}
    assert [shape.stranded_chips for shape in answer.shapes] == [0, 2, 6, 6, 6]


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
    assert (chips.unschedulable, chips.network_faulty) == (16, 1)


def test_n1_boards_are_found_by_the_labels_of_nodes() -> None:
    view = told(
        node("node-1", labels={"accelerator-type": "module"}),
        node("node-2", 16, labels={"accelerator-type": "module-910b-16"}),
    )
    answers = capacity(view, NOW)
    assert [(answer.board, answer.accelerator_type, answer.chips.chips) for answer in answers] == [
        ("910-x8", "module", 8),
        ("910b-x16", "module-910b-16", 16),
    ]
    assert jobs(answers[0])["8 chips"] == 1
    assert jobs(answers[1])["16 chips"] == 1


def test_a_queue_may_allow_less() -> None:
    view = told(node("node-1"), Queue("small", capability={CHIP: 3}))
    (answer,) = capacity(view, NOW, "small")
    assert jobs(answer)["1 chip"] == 3
    assert jobs(answer)["4 chips"] == 0


def test_p1_blocks_stay_inside_superpods() -> None:
    labels = {"accelerator-type": "module-a3-16-super-pod"}
    view = told(*(node(f"node-{n}", 16, labels=labels, superpod=n // 5) for n in range(10)))
    (answer,) = capacity(view, NOW)
    assert answer.board == "a3-x16-superpod"
    blocks = {
        shape.shape: (shape.jobs, shape.stranded_chips) for shape in answer.shapes if shape.kind == "block"
    }
    assert blocks == {"blocks of 2 nodes": (4, 32), "blocks of 4 nodes": (2, 32)}
    assert answer.largest_gang == 5


def test_r1_blocks_on_boards_with_racks_follow_the_rack_rules() -> None:
    """Nodes in racks have a board with racks, whatever other boards serve their resource; no reserve."""
    view = told(*(node(f"node-{n}", resource=NPU, superpod=n // 5, rack=n % 2) for n in range(10)))
    (answer,) = capacity(view, NOW)
    assert answer.board == "950-x8-rack"
    blocks = {
        shape.shape: (shape.jobs, shape.stranded_chips) for shape in answer.shapes if shape.kind == "block"
    }
    assert blocks == {"blocks of 2 nodes": (4, 16), "blocks of 4 nodes": (2, 16)}
    assert answer.largest_gang == 5


# -- shapes of every board -----------------------------------------------------------------------

BOARDS = list(shipped_catalog())


def fleet_events(board: Board, nodes: int = 8, chips: int | None = None) -> list[object]:
    switched = None if board.superpod else 4
    made = make_fleet(nodes, board.name, chips=chips, leaf_size=switched, superpod_size=4)
    return [*made.nodes, *made.reports, *([made.topology] if made.topology else [])]


def job_events(board: Board, name: str, pods: int, chips: int, **annotations: str) -> list[PodGroup | Pod]:
    """A job as its user writes it: what selects the board, and nothing that a tool would know."""
    kind = next((one for one in board.accelerator_types if one and "*" not in one), "")
    labels = dict(board.job_labels) | {
        key: annotations.pop(key) for key in (TOR_AFFINITY,) if key in annotations
    }
    if board.policies and not kind:
        annotations[SCHEDULE_POLICY] = board.policies[0]
    selector = ((ACCELERATOR_TYPE, kind),) if kind else ()
    cls = pod_class(chips, resource=board.resources[0], node_selector=selector)
    members = [pod(f"{name}-{at}", cls=cls, group=name, labels=labels) for at in range(pods)]
    return [group(name, pods, labels=labels, annotations=annotations), *members]


def started(scheduler: Scheduler, board: Board, shape: JobShape) -> int:
    """How many pods of a job of this shape are bound; it is an error if the job is refused."""
    more = {}
    if shape.kind == "block":
        more[SP_BLOCK] = str(shape.pods * shape.chips_per_pod)
    if shape.kind == "switches":
        more[TOR_AFFINITY] = "large-model-schema" if "foundation" in shape.shape else "normal-schema"
    events = job_events(board, "asked", shape.pods, shape.chips_per_pod, **more)
    commands = scheduler.handle(seen(*events), NOW + 1)
    reason = scheduler.view.jobs["default/asked"].reason
    assert reason is None or reason.kind.stage is not Stage.VALIDATE, (shape.shape, reason)
    return sum(isinstance(one, Bind) and one.pod.startswith("asked") for one in commands)


@pytest.mark.parametrize("board", sample(BOARDS, 4), ids=lambda board: board.name)
def test_n2_no_shape_is_offered_that_the_board_refuses(board: Board) -> None:
    """And none that no node of the cluster could ever hold."""
    events = [*fleet_events(board), *job_events(board, "first", 1, 1)]
    (answer,) = capacity(scheduler_told(events).view, NOW)
    assert answer.board == board.name
    assert answer.shapes
    for shape in answer.shapes:
        assert shape.jobs, shape.shape
        assert started(scheduler_told(events), board, shape) == shape.pods, shape.shape
    alone = [shape for shape in answer.shapes if shape.kind == "one-pod"]
    assert alone[0].jobs == answer.chips.free
    # As many start as were counted, and not one more.
    largest, scheduler = alone[-1], scheduler_told(events)
    more = [job_events(board, f"new-{n}", 1, largest.chips_per_pod) for n in range(largest.jobs + 1)]
    commands = scheduler.handle(seen(*more), NOW + 1)
    assert sum(isinstance(one, Bind) for one in commands) == largest.jobs


@given(st.sampled_from(["910-card", "310p", "a3-x16", "910b-x8", "mesh4-x8"]), st.integers(1, 8))
def test_nodes_with_fewer_chips_than_their_board(name: str, chips: int) -> None:
    board = shipped_catalog()[name]
    events = [*fleet_events(board, 4, chips), *job_events(board, "first", 1, 1)]
    (answer,) = capacity(scheduler_told(events).view, NOW)
    for shape in answer.shapes:
        assert shape.chips_per_pod <= chips, shape.shape
        assert started(scheduler_told(events), board, shape) == shape.pods, shape.shape


def test_p6_no_block_is_larger_than_a_superpod_may_be() -> None:
    made = make_fleet(64, "a3-x16-superpod", superpod_size=64)
    (answer,) = capacity(told(*made.nodes), NOW)
    assert max(shape.pods for shape in answer.shapes) == 32
    assert answer.largest_gang <= 48


def test_s1_fewer_pods_than_a_foundation_model_needs_are_none() -> None:
    board = shipped_catalog()["910-x8"]
    (answer,) = capacity(scheduler_told(fleet_events(board, 3)).view, NOW)
    assert [shape.shape for shape in answer.shapes if shape.kind == "switches"] == ["largest common job"]


def test_s1_largest_switch_aware_jobs_of_version_2() -> None:
    """Its classes are read from marks on the pods of a job."""
    default = default_configuration()
    version2 = replace(default, settings=replace(default.settings, nslb_version="2.0"))
    events = fleet_events(shipped_catalog()["910-x8"])
    (answer,) = capacity(scheduler_told(events, configuration=version2).view, NOW)
    assert {shape.shape: shape.pods for shape in answer.shapes if shape.kind == "switches"} == {
        "largest foundation-model job": 8,
        "largest common job": 8,
    }


def test_switches_that_lead_to_other_boards_only() -> None:
    """Chips for inference are under no leaf switch: nothing is said about switch-aware jobs on them."""
    plain = make_fleet(2, "310p", prefix="infer-", first=100)
    events = [*fleet_events(shipped_catalog()["910-x8"]), *plain.nodes]
    kinds = {
        answer.board: {shape.kind for shape in answer.shapes}
        for answer in capacity(scheduler_told(events).view, NOW)
    }
    assert "switches" in kinds["910-x8"]
    assert "switches" not in kinds["310p"]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([1, 2, 4])), max_size=7),
    st.sampled_from([1, 2, 4, 8]),
)
def test_as_many_start_as_were_counted(busy: list[tuple[int, int]], size: int) -> None:
    events: list[object] = [node(f"node-{n}") for n in range(3)]
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
    counted = next(
        shape for shape in answer.shapes if shape.kind == "one-pod" and shape.chips_per_pod == size
    )
    submitted = [pod(f"new-{n}", size) for n in range(counted.jobs + 3)]
    started = sum(isinstance(command, Bind) for command in scheduler.handle(seen(*submitted), NOW + 1))
    assert started == counted.jobs
