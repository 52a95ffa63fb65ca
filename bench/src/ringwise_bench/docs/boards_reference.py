"""`docs/reference/boards.md`: the boards and their rules, from their files."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.grammar import counted
from ringwise.manifests.settings.boards import shipped_boards
from ringwise.placement.rules import chip_rule
from ringwise.topology.board import Board
from ringwise.topology.counts import counts_text
from ringwise.topology.policy import UNSUPPORTED_POLICIES
from ringwise.topology.rule_specs import RULE_SPECS, ParameterKind, RuleSpec
from ringwise.views.boards import (
    chosen_by,
    multi_pod_text,
    ring_picture,
    rings_text,
    table_grid,
)
from ringwise_bench.docs.parts import table


def boards_parts() -> dict[str, str]:
    """Those of `docs/reference/boards.md`."""
    boards = list(shipped_boards().values())
    rows = (
        (
            f"[{board.name}](#{board.name})",
            str(board.chips_per_node),
            rings_text(board),
            counts_text(board.one_pod),
            multi_pod_text(board),
            f"[{board.rule}](#rules)",
        )
        for board in boards
    )
    unsupported = sorted(UNSUPPORTED_POLICIES.items())
    return {
        "table": table(("board", "chips", "links", "one pod", "each of several pods", "rule"), rows),
        "policies that are not supported": "\n".join(
            f"- `{policy}` ({what})" for policy, what in unsupported
        ),
        "boards": "\n".join(line for board in boards for line in _board_section(board)),
        "rules": "\n".join(map(_rule, RULE_SPECS.values())),
    }


def _rule(spec: RuleSpec) -> str:
    lines = [f"**{spec.name}** (rings: {spec.rings.value})", ""]
    lines += [f"- fits: {spec.fits}", f"- raw score: {spec.score}", f"- chips: {spec.chooses}"]
    for key, parameter in spec.parameters.items():
        given = "required" if parameter.default is None else f"default {_word(parameter.default)}"
        lines.append(f"- parameter `{key}`: {parameter.kind.value} ({given})")
    return "\n".join([*lines, ""])


def _board_section(board: Board) -> list[str]:
    spec = RULE_SPECS[board.rule]
    lines = [f"## {board.name}", "", board.title + ".", "", "```text", *ring_picture(board), "```", ""]
    lines += [f"- resources: {' and '.join(f'`{resource}`' for resource in board.resources)}"]
    lines += [f"- selected by: {'; '.join(f'`{way}`' for way in chosen_by(board))}"]
    lines += [
        f"- one pod: {counted(counts_text(board.one_pod), 'chip')}; each of several pods: "
        f"{multi_pod_text(board)}"
    ]
    if board.multi_pod_vendor != board.multi_pod:
        lines[-1] += f" (with `multi-pod-requests: vendor`: {counts_text(board.multi_pod_vendor)})"
    if board.total_multiple_of > 1:
        lines.append(f"- total chips of a job: 1 in one pod, or a multiple of {board.total_multiple_of}")
    if board.node_labels:
        labels = " and ".join(f"`{key}={value}`" for key, value in board.node_labels)
        lines.append(f"- nodes must be labeled {labels}")
    if board.checks_network:
        lines.append("- chips with network faults are not assigned to jobs with several pods")
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
    for scores in chip_rule(board).tables():
        columns, grid = table_grid(scores)
        rows = (
            (str(request), *("-" if value >= scores.no_fit_value else str(value) for value in row))
            for request, row in grid
        )
        lines += [f"{scores.title.capitalize()}; columns: {scores.columns}.", ""]
        lines += [table(("request", *map(str, columns)), rows), ""]
    if board.rule == "ring-groups" and len(board.rings) == 2:
        lines += _score_grids(board)
    return lines


def _raw_scores(board: Board, request: int) -> Iterator[tuple[int, list[int | None]]]:
    """Scores of a healthy node by the free chips of its two rings: a left count, and the right ones."""
    rule = chip_rule(board)
    left, right = board.rings
    for on_left in range(len(left) + 1):
        row = []
        for on_right in range(len(right) + 1):
            usable = sum(1 << chip for chip in (*left[:on_left], *right[:on_right]))
            row.append(rule.score(rule.signature(usable, board.chips_per_node, 0), request, False))
        yield on_left, row


def _score_grids(board: Board) -> list[str]:
    lines = [
        "Raw scores of a node without faults, by free chips (rows: left ring, columns: right ring):",
        "",
    ]
    for request in sorted(board.one_pod):
        grid = list(_raw_scores(board, request))
        heading = (f"{request} requested", *map(str, range(len(grid[0][1]))))
        rows = ((str(left), *("-" if one is None else str(one) for one in row)) for left, row in grid)
        lines += [table(heading, rows), ""]
    return lines


def _word(value: bool | int) -> str:
    return str(value).lower()
