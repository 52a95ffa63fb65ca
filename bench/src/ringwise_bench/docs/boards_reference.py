"""Pages of the documentation that are printed from the program's own data."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.grammar import counted
from ringwise.placement.rules import chip_rule
from ringwise.topology.board import Board
from ringwise.topology.boards import shipped_boards
from ringwise.topology.counts import counts_text
from ringwise.topology.policy import UNSUPPORTED_POLICIES
from ringwise.topology.rule_specs import RULE_SPECS, ParameterKind
from ringwise.views.boards import (
    chosen_by,
    multi_pod_text,
    raw_scores,
    ring_picture,
    rings_text,
    table_grid,
)

_INTRODUCTION = """\
# Boards

A board defines which chips a node has, how they are linked, how many a pod may request (rule N2), how nodes
are scored for a request (N3, N4) and which chips the pod gets (N5). Boards are data (N1): each is one file in
`src/ringwise/topology/profiles/`. This page is generated from those files (`make docs`), up to
[a board of your own](#a-board-of-your-own); `ringwise boards` and `ringwise boards show NAME` print the same.

A job's board is found in this order: the annotation `huawei.com/schedule_policy` (of the PodGroup, else of a
pod), the annotation `sp-block`, the node selector `accelerator-type`, and for the 310 family the job's
labels. `huawei.com/npu` needs the policy. A policy that no board has is ignored, as in Volcano with Huawei's
plugin, where `sp-block` or `accelerator-type` still selects a board; where only the default board would be
left, the job is refused with the nearest valid policy.
"""

_READING = """\
## Reading the tables

Misfit tables have one row for each request and one column for each count of free chips; lower is better and
`-` does not fit. Of two nodes the one with the higher raw score is taken (N3a); nodes with equal scores are
taken in natural order of their names. *free* counts the chips the job may have (N7): without chips that are
unhealthy or recovering and, for jobs with several chip pods on boards that watch the network, without chips
with network faults (on SuperPoD boards only for jobs of several logical SuperPoDs). *allocatable* is
Kubernetes' count of healthy chips, *faulty* the number of chips listed as unhealthy, *chips* the board's
chips per node. A node that lists more free chips than its board has takes no pod. SuperPoD boards: the
SuperPoD rules choose the nodes of jobs with several pods, and the board's score orders nodes for jobs of one
pod.
"""

#: From here on the page is written by hand.
_OWN_BOARD = "## A board of your own\n"


def boards_page(page: str) -> str:
    """`docs/boards.md`: all boards and rules anew; the text about a board of one's own stays."""
    boards = list(shipped_boards().values())
    lines = [_INTRODUCTION]
    lines += _table(
        ("board", "chips", "links", "one pod", "each of several pods", "rule"),
        (
            (
                f"[{board.name}](#{board.name})",
                str(board.chips_per_node),
                rings_text(board),
                counts_text(board.one_pod),
                multi_pod_text(board),
                f"[{board.rule}](#rules)",
            )
            for board in boards
        ),
    )
    lines += [
        "",
        "Known and not supported yet, refused with a reason: virtual chips (vNPU), and the policies",
        "",
    ]
    lines += [f"- `{policy}` ({what})" for policy, what in sorted(UNSUPPORTED_POLICIES.items())]
    lines += ["", _READING]
    for board in boards:
        lines += _board_section(board)
    lines += ["## Rules", ""]
    for spec in RULE_SPECS.values():
        lines += [f"**{spec.name}** (rings: {spec.rings.value})", ""]
        lines += [f"- fits: {spec.fits}", f"- raw score: {spec.score}", f"- chips: {spec.chooses}"]
        for key, parameter in spec.parameters.items():
            given = "must be given" if parameter.default is None else f"default {_word(parameter.default)}"
            lines.append(f"- parameter `{key}`: {parameter.kind.value} ({given})")
        lines.append("")
    return "\n".join(lines) + "\n" + page[page.index(_OWN_BOARD) :]


def _board_section(board: Board) -> list[str]:
    spec = RULE_SPECS[board.rule]
    lines = [f"## {board.name}", "", board.title + ".", "", "```text", *ring_picture(board), "```", ""]
    lines += [f"- serves {' and '.join(f'`{resource}`' for resource in board.resources)}"]
    lines += [f"- chosen by: {'; '.join(f'`{way}`' for way in chosen_by(board))}"]
    lines += [
        f"- one pod: {counted(counts_text(board.one_pod), 'chip')}; each of several pods: "
        f"{multi_pod_text(board)}"
    ]
    if board.multi_pod_vendor != board.multi_pod:
        lines[-1] += f" (with `multi-pod-requests: vendor`: {counts_text(board.multi_pod_vendor)})"
    if board.total_multiple_of > 1:
        lines.append(f"- a job's chips in all: 1 in one pod, or a multiple of {board.total_multiple_of}")
    if board.node_labels:
        labels = " and ".join(f"`{key}={value}`" for key, value in board.node_labels)
        lines.append(f"- nodes must be labelled {labels}")
    if board.watches_network:
        lines.append("- chips with network faults are withheld from jobs of several pods")
    lines += [f"- rule {spec.name}; raw score: {spec.score}"]
    settings = [
        f"`{key}` = {_word(value)}"
        for key, value in board.parameters
        if spec.parameters[key].kind is not ParameterKind.TABLE and not isinstance(value, tuple)
    ]
    if settings:
        lines.append(f"- {', '.join(settings)}")
    lines += [f"- {note}" for note in board.notes]
    lines.append("")
    for table in chip_rule(board).tables():
        columns, rows = table_grid(table)
        lines += [f"{table.title.capitalize()}; columns: {table.columns}.", ""]
        lines += _table(
            ("request", *map(str, columns)),
            ((str(request), *(_cell(value, table.unfit) for value in row)) for request, row in rows),
        )
        lines.append("")
    if board.rule == "ring-groups" and len(board.rings) == 2:
        lines += _score_grids(board)
    return lines


def _score_grids(board: Board) -> list[str]:
    lines = [
        "Raw scores of a node without faults, by the free chips of its rings (rows left, columns right):",
        "",
    ]
    for request in sorted(board.one_pod):
        grid = list(raw_scores(board, request))
        lines += _table(
            (f"{request} requested", *map(str, range(len(grid[0][1])))),
            ((str(left), *("-" if score is None else str(score) for score in row)) for left, row in grid),
        )
        lines.append("")
    return lines


def _cell(value: int, unfit: int) -> str:
    return "-" if value >= unfit else str(value)


def _word(value: bool | int) -> str:
    return str(value).lower()


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return lines
