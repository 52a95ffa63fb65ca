"""Boards as drawings, tables and documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ringwise.grammar import counted
from ringwise.placement.rules import ScoreTable, chip_rule
from ringwise.topology.board import Board
from ringwise.topology.counts import counts_text
from ringwise.topology.rule_specs import RULE_SPECS
from ringwise.views.documents import reference as doc
from ringwise.wellknown import ACCELERATOR_TYPE, SCHEDULE_POLICY

#: A picture is at most this wide.
_WIDTH = 76


def ring_picture(board: Board) -> list[str]:
    """The board's chips drawn in boxes, one for each ring; without rings, side by side."""
    if not board.rings:
        return _wrapped([str(chip) for chip in range(board.chips_per_node)])
    width = len(str(board.chips_per_node - 1))
    boxes = [" ".join(f"{chip:>{width}}" for chip in ring) for ring in board.rings]
    fitting = max(1, (_WIDTH + 1) // (max(map(len, boxes)) + 5))
    # A power of two, so that the lines of boards with many rings are equally long.
    per_line = 1 << fitting.bit_length() - 1
    lines: list[str] = []
    for start in range(0, len(boxes), per_line):
        row = boxes[start : start + per_line]
        lines.append(" ".join("╭" + "─" * (len(box) + 2) + "╮" for box in row))
        lines.append(" ".join(f"│ {box} │" for box in row))
        lines.append(" ".join("╰" + "─" * (len(box) + 2) + "╯" for box in row))
    return lines


def _wrapped(words: list[str]) -> list[str]:
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > _WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def rings_text(board: Board) -> str:
    if not board.rings:
        return "none"
    sizes = sorted({len(ring) for ring in board.rings})
    return f"{counted(board.rings, board.ring_kind)} of {' and '.join(map(str, sizes))}"


def chosen_by(board: Board) -> list[str]:
    """What in a job leads to this board, one sentence part each."""
    ways = [f"{SCHEDULE_POLICY}: {policy}" for policy in board.policies]
    ways += [
        f"{ACCELERATOR_TYPE}: {kind}" if kind else "no policy and no accelerator-type"
        for kind in board.accelerator_types
    ]
    if board.sp_block_fallback:
        ways.append("annotation sp-block without a policy")
    if board.job_labels:
        ways.append("labels " + " and ".join(f"{key}={value}" for key, value in board.job_labels))
    if board.fallback == "unlabeled":
        ways.append("no label")
    elif board.fallback == "always":
        ways.append("no other board's labels")
    return ways


def chosen_by_words(board: Board) -> list[str]:
    """The values alone that select this board, for narrow tables."""
    words = [*board.policies, *(kind or "(default)" for kind in board.accelerator_types)]
    words += [f"{key}={value}" for key, value in board.job_labels]
    if board.fallback != "never":
        words.append("(default)")
    return list(dict.fromkeys(words))


def multi_pod_text(board: Board) -> str:
    return counts_text(board.multi_pod) if board.multi_pod else "not allowed"


def table_grid(table: ScoreTable) -> tuple[list[int], list[tuple[int, list[int]]]]:
    """Columns (free chips) and rows (request, misfits), unfit places filled in."""
    columns = list(range(1, max(free for row in table.rows.values() for free in row) + 1))
    return columns, [
        (request, [row.get(free, table.no_fit_value) for free in columns])
        for request, row in sorted(table.rows.items())
    ]


def board_document(board: Board) -> doc.BoardDocument:
    """What `ringwise boards show -o json` prints."""
    return doc.BoardDocument.of(board, **_computed(board))


def boards_document(boards: Iterable[Board]) -> doc.BoardsDocument:
    """What `ringwise boards -o json` prints."""
    return doc.BoardsDocument(boards=[doc.BoardFields.of(board, **_computed(board)) for board in boards])


def _computed(board: Board) -> dict[str, Any]:
    """The fields that are not attributes of the board, or are not as a document has them."""
    spec = RULE_SPECS[board.rule]
    return {
        "job_labels": dict(board.job_labels),
        "node_labels": dict(board.node_labels),
        "requests": doc.RequestFields(
            one_pod=sorted(board.one_pod),
            multi_pod=sorted(board.multi_pod),
            multi_pod_vendor=sorted(board.multi_pod_vendor),
        ),
        "rule": doc.RuleFields.of(spec, chips=spec.chooses, parameters=dict(board.parameters)),
        "tables": [
            doc.TableFields.of(table, rows={str(request): values for request, values in table_grid(table)[1]})
            for table in chip_rule(board).tables()
        ],
    }
