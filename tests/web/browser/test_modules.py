"""The parts of the page that compute, called in the browser that runs them."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.durations import duration_text
from tests.web.browser.conftest import Opener
from tests.web.browser.rig import DashboardLab

pytestmark = pytest.mark.browser


@pytest.fixture
def call(quiet_lab: DashboardLab, open_page: Opener) -> Any:
    """Calls a function of a module with JSON."""
    view = open_page(quiet_lab.url).open("jobs")

    def calling(module: str, body: str, argument: Any = None) -> Any:
        script = f"async (argument) => {{ const module = await import('/page/{module}'); {body} }}"
        return view.page.evaluate(script, argument)

    return calling


def test_events_are_read_from_pieces_of_any_size(call: Any) -> None:
    text = (
        ': alive\n\nevent: change\nid: 7\ndata: {"a":\ndata: 1}\n\nevent: reset\r\ndata: x\r\n\r\n'
        "id\nunknown: y\rdata:no space\r\r\n\ndata: \u05d0\U0001f600\n\nevent: lost\n\ndata: unfinished"
    )
    expected = [
        {"event": "change", "id": "7", "data": '{"a":\n1}'},
        {"event": "reset", "id": "7", "data": "x"},
        {"event": "message", "id": "", "data": "no space"},
        {"event": "message", "id": "", "data": "\u05d0\U0001f600"},
    ]
    body = """
      const results = new Set();
      for (let size = 1; size <= argument.length; size += 1) {
        const parser = new module.EventStreamParser();
        const events = [];
        for (let i = 0; i < argument.length; i += size) {
          events.push(...parser.take(argument.slice(i, i + size)));
        }
        results.add(JSON.stringify(events));
      }
      return [...results].map((one) => JSON.parse(one));
    """
    assert call("event_stream.js", body, text) == [expected]


RINGS = {
    "two rings of four": [[0, 1, 2, 3], [4, 5, 6, 7]],
    "one of sixteen": [list(range(16))],
    "pairs": [[2 * i, 2 * i + 1] for i in range(8)],
    "single": [[i] for i in range(5)],
    "none": [],
}


@pytest.mark.parametrize("rings", RINGS.values(), ids=RINGS.keys())
def test_chips_of_a_node_never_overlap(call: Any, rings: list[list[int]]) -> None:
    numbers = [*(number for ring in rings for number in ring), 90, 91]
    board = {"name": "b", "accelerator": "", "chips": 1, "rings": rings, "ring_kind": "ring"}
    shape = call("layout.js", "return module.nodeShape(argument[0], argument[1])", [board, numbers])
    corners = list(zip(shape["xs"], shape["ys"], strict=True))
    assert len(corners) == len(numbers)
    for i, (x, y) in enumerate(corners):
        assert shape["chip"] == 1
        assert 0 <= x <= shape["w"] - 1
        assert 0 <= y <= shape["h"] - 1
        assert all(abs(x - u) >= 1 or abs(y - v) >= 1 for u, v in corners[:i])


@pytest.mark.parametrize("grouping", ["none", "switch", "superpod", "rack", "board"])
@pytest.mark.parametrize("count", [0, 1, 7, 300])
def test_every_node_has_its_place_on_the_map(call: Any, grouping: str, count: int) -> None:
    body = """
      const rings = [[0, 1, 2, 3], [4, 5, 6, 7]];
      const board = { name: "b", resource: "r", accelerator: "", chips: 8, rings, ring_kind: "ring" };
      const large = { name: "c", resource: "s", accelerator: "", chips: 64, rings: [], ring_kind: "ring" };
      const many = Array.from({ length: 64 }, (_, i) => i);
      const rows = Array.from({ length: argument.count }, (_, i) => ({
        name: `n${i}`, board: [null, 0, 0, 1, 0][i % 5],
        switch: i % 4 ? `s${i % 7}` : null, superpod: i % 3, rack: i % 2 ? i % 6 : null,
        state: "ready", states: [], numbers: i % 11 ? (i % 5 === 3 ? many : [0, 1, 2, 3, 4, 5, 6, 7]) : [],
        holders: [], chip_states: "", health: "",
      }));
      const layout = module.layOut(rows, [board, large], argument.grouping, 1.6);
      const wrong = [];
      const boxes = [...layout.nodes.values()];
      for (const node of boxes) {
        const { x, y, w, h } = node.box;
        const found = module.at(layout, x + w / 2, y + h / 2);
        if (found.node !== node) wrong.push(node.row.name);
        const inside = x > -1e-6 && y > -1e-6 && x + w < layout.w + 1e-6 && y + h < layout.h + 1e-6;
        if (!inside) wrong.push(`outside ${node.row.name}`);
        node.row.numbers.forEach((_, i) => {
          const [left, top] = module.chipOrigin(node);
          const half = node.shape.chip / 2;
          const chip = module.at(layout, left + node.shape.xs[i] + half, top + node.shape.ys[i] + half);
          if (chip.node !== node || chip.chip !== i) wrong.push(`chip ${i} of ${node.row.name}`);
          const [right, low] = [left + node.shape.xs[i] + 2 * half, top + node.shape.ys[i] + 2 * half];
          if (right > x + w || low > y + h) wrong.push(`large ${node.row.name}`);
        });
      }
      return { places: boxes.length, wrong };
    """
    assert call("layout.js", body, {"count": count, "grouping": grouping}) == {"places": count, "wrong": []}


def test_ten_thousand_nodes_fill_a_picture_well(call: Any) -> None:
    body = """
      const rows = Array.from({ length: 10000 }, (_, i) => ({
        name: `n${i}`, board: null, switch: `s${i >> 4}`, superpod: null, rack: null,
        state: "ready", states: [], numbers: [0, 1, 2, 3, 4, 5, 6, 7],
        holders: [], chip_states: "", health: "",
      }));
      const layout = module.layOut(rows, [], "switch", 1.6);
      const { w, h } = layout.leaves[0].nodes[0].box;
      return (10000 * w * h) / (Math.max(layout.w / 1.6, layout.h) ** 2 * 1.6);
    """
    assert call("layout.js", body) > 0.6


def mixed_layout(call: Any, grouping: str) -> Any:
    """How much of their cells the chips of a node of eight and of one of sixty-four fill, and the groups."""
    body = """
      const boards = [
        { name: "910", resource: "a", rings: [[0, 1, 2, 3], [4, 5, 6, 7]] },
        { name: "310", resource: "b", rings: [] },
      ];
      const rows = Array.from({ length: 60 }, (_, i) => ({
        name: `n${i}`, board: i < 50 ? 0 : 1, switch: null, superpod: null, rack: null,
        state: "ready", states: [], numbers: Array.from({ length: i < 50 ? 8 : 64 }, (_, n) => n),
        holders: [], chip_states: "", health: "",
      }));
      const layout = module.layOut(rows, boards, argument, 1.6);
      const filled = ["n0", "n50"].map((name) => {
        const { box, shape } = layout.nodes.get(name);
        return shape.w / box.w;
      });
      return { filled, groups: layout.tops.map((group) => [group.kind, group.name, group.nodes.length]) };
    """
    return call("layout.js", body, grouping)


def test_boards_are_groups_and_their_nodes_fill_their_cells(call: Any) -> None:
    """In one group with nodes of sixty-four chips, chips of smaller nodes are drawn larger."""
    assert mixed_layout(call, "board")["groups"] == [["board", "310", 10], ["board", "910", 50]]
    for grouping in ("board", "none", "switch"):
        assert min(mixed_layout(call, grouping)["filled"]) > 0.8, grouping


def test_boards_can_be_grouped_where_there_are_several(call: Any) -> None:
    body = "return module.groupingsOf(argument)"
    node = {"switch": "s", "superpod": None, "rack": None}
    assert call("layout.js", body, [node | {"board": 0}, node | {"board": 0}]) == ["switch", "none"]
    assert call("layout.js", body, [node | {"board": 0}, node | {"board": 1}]) == ["board", "switch", "none"]


def test_one_board_of_two_labels_has_two_names(call: Any) -> None:
    boards = [
        {"name": "910-card", "resource": "r", "accelerator": "card"},
        {"name": "910-card", "resource": "r", "accelerator": "card-2"},
        {"name": "310p", "resource": "s", "accelerator": ""},
    ]
    body = "return argument[0].map((board) => module.boardName({ board }, argument[1]))"
    names = call("layout.js", body, [[0, 1, 2, None], boards])
    assert names == ["910-card (card)", "910-card (card-2)", "310p", ""]


def test_a_group_with_several_resources_counts_each(call: Any) -> None:
    body = """
      const nodes = ["....uuuu", "........", ".".repeat(60) + "cccc"].map((chip_states, i) => (
        { row: { board: i >> 1, state: "ready", schedulable: true, holders: [], health: "", chip_states } }));
      const store = { resource: (node) => ["huawei.com/Ascend910", "huawei.com/Ascend310P"][node.board] };
      const group = { kind: "leaf switch", name: "s", nodes, groups: [] };
      const part = { ...group, nodes: nodes.slice(0, 2) };
      return [module.groupText(store, group), module.groupText(store, part)];
    """
    mixed, alike = call("describe.js", body)
    assert "60 of 64 chips Ascend310P free, 4 unschedulable, 12 of 16 chips Ascend910 free" in mixed
    assert "12 of 16 chips free" in alike


def test_queues_whose_parents_are_a_circle_are_all_shown(call: Any) -> None:
    queues = [
        {"name": name, "parent": parent}
        for name, parent in [("a", "b"), ("b", "a"), ("c", ""), ("d", "c"), ("e", "e")]
    ]
    body = "return module.queueTree(argument).map((queue) => [queue.name, queue.depth])"
    assert call("views/queues.js", body, queues) == [["c", 0], ["d", 1], ["e", 0], ["a", 0], ["b", 1]]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2, 3], "0-3"), ([7, 0, 1, 5], "0-1, 5, 7"), ([10, 9], "9-10")],
)
def test_chip_numbers_in_a_row_become_ranges(call: Any, numbers: list[int], text: str) -> None:
    assert call("text.js", "return module.ranges(argument)", numbers) == text


def test_a_job_that_comes_back_under_its_name_keeps_its_new_row(call: Any) -> None:
    body = """
      const store = new module.Store();
      const row = (id) => ({ id, namespace: "ns", name: "a", outcome: "pending" });
      store.apply({ sequence: 1, time: "", jobs: [row(1)] });
      store.apply({ sequence: 2, time: "", jobs: [row(2)] });
      store.apply({ sequence: 3, time: "", removed_jobs: [1] });
      return [store.job("ns", "a").id, store.jobs.size];
    """
    assert call("store.js", body) == [2, 1]


def test_nodes_that_come_later_are_put_in_their_order(call: Any) -> None:
    body = """
      const store = new module.Store();
      const empty = { board: null, switch: null, superpod: null, rack: null, numbers: [], holders: [] };
      const row = (name) => ({ name, ...empty, states: [], chip_states: "", health: "" });
      const told = [];
      store.subscribe((change) => told.push(change.nodes === null));
      store.apply({ sequence: 1, time: "", nodes: [row("n10"), row("n2")] });
      store.apply({ sequence: 2, time: "", nodes: [row("n1")] });
      store.apply({ sequence: 3, time: "", nodes: [row("n2")] });
      store.apply({ sequence: 4, time: "", removed_nodes: ["n2", "never"] });
      return [[...store.nodes.keys()], told];
    """
    assert call("store.js", body) == [["n1", "n10"], [True, True, False, True]]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0s"), (-5, "0s"), (59, "59s"), (119, "1m59s"), (120, "2m"), (629, "10m29s")),
        *((7_800, "2h10m"), (7_859, "2h10m"), (10_800, "3h"), (172_799, "1d23h"), (172_800, "2d")),
        *((3 * 86400 + 4 * 3600, "3d4h"), (30 * 86400 + 300, "30d")),
    ],
)
def test_durations_are_written_as_commands_write_them(call: Any, seconds: int, text: str) -> None:
    assert duration_text(seconds * 1_000_000_000) == text
    assert call("text.js", "return module.span(argument)", seconds) == text


#: Seconds from now: earliest and latest start, whether it is a guess, and what is shown.
STARTS = [
    (None, None, False, "unknown"),
    (300, None, False, "in 5m or later"),
    (-300, None, False, "unknown"),
    (300, 300, False, "in 5m"),
    (300, 480, True, "in 5m to 8m (estimated)"),
    (-10, 480, False, "within 8m"),
    (-10, -10, False, "in the next cycle"),
    (-7200, -600, False, "overdue by 10m"),
    (-7200, -600, True, "overdue by 10m (estimated)"),
]


@pytest.mark.parametrize(("earliest", "latest", "guess", "text"), STARTS)
def test_a_start_never_lies_in_the_past(
    call: Any, earliest: int | None, latest: int | None, guess: bool, text: str
) -> None:
    now = 1_800_000_000
    times = [None if one is None else (now + one) * 10**9 for one in (earliest, latest)]
    start: dict[str, Any] = {
        "earliest": times[0],
        "latest": times[1],
        "estimated": guess,
        "after": [],
        "reason": "",
        "message": "",
    }
    body = "return module.startText(argument, '2027-01-15T08:00:00Z')"
    assert call("text.js", body, start) == text


@pytest.mark.parametrize(
    ("start", "text"),
    [
        ({"reason": "no job has an expected duration"}, "no job has an expected duration"),
        ({"earliest": 0, "latest": 0}, "at 1970-01-01 00:00:00"),
        (
            {"earliest": 0, "latest": 60 * 10**9, "after": ["a/b", "c/d"]},
            "between 1970-01-01 00:00:00 and 1970-01-01 00:01:00; after the end of a/b, c/d",
        ),
        ({"earliest": 0, "reason": "x", "estimated": True}, "not before 1970-01-01 00:00:00; x; estimated"),
        # A thousand jobs in a row, each of which is said to run for 292 years.
        ({"earliest": 10**22, "latest": 10**22}, "at 9999-12-31 23:59:59"),
    ],
)
def test_a_start_says_what_it_rests_on(call: Any, start: dict[str, Any], text: str) -> None:
    empty: dict[str, Any] = {"earliest": None, "latest": None, "estimated": False, "after": [], "reason": ""}
    assert call("text.js", "return module.startDetail(argument)", {**empty, **start}).startswith(text)


@pytest.mark.parametrize(
    ("value", "is_time"),
    [
        ("2026-01-01T00:00:00Z", True),
        ("2026-99-99T99:99:99Z", False),
        (1_800_000_000 * 10**9, True),
        # A limit of memory: 1 PiB.
        (2**50, False),
    ],
)
def test_operations_show_times_as_times_and_nothing_else(call: Any, value: object, is_time: bool) -> None:
    body = "return module.shownValue('name', argument).type?.name === 'Since'"
    assert call("views/operations.js", body, value) == is_time
