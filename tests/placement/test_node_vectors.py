"""The worked cases of one node's chips, through the library's own functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ringwise.framework.job import PreviousNode
from ringwise.manifests.settings.boards import shipped_boards, shipped_catalog
from ringwise.placement.rules import ScoreTable, chip_rule
from ringwise.placement.validity import check_requests
from ringwise.reasons import Reason
from ringwise.state.cluster import ClusterState
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of
from ringwise.topology.policy import SOFT_SHARE_POLICY, PolicyFacts, select_board
from ringwise.wellknown import SCHEDULE_POLICY
from tests.framework.returning import node_of_returning_pod
from tests.placement.one_node import NodeFit, ask, device_report, fleet_of, one_node

Case = dict[str, Any]

#: The cases' names of the boards, and ours.
BOARDS = {
    "ascend910x8_2021": "910-x8",
    "module910x8": "910-x8",
    "half910x4": "910-half",
    "card910": "910-card",
    "module910bx8": "910b-x8",
    "module910bx16": "910b-x16",
    "module910a3x16": "a3-x16",
    "a3_superpod16": "a3-x16-superpod",
    "a3_superpod8": "a3-x8-superpod",
    "chip8node8sp": "850-x8-superpod",
    "chip8node8ra64sp": "950-x8-rack",
    "a5x8": "850-x8",
    "chip4node8": "mesh4-x8",
    "chip4node16": "mesh4-x16",
    "chip1node8": "single-x8",
    "chip1node16": "single-x16",
    "card310x4": "310-card",
    "chip310x4": "310-chip",
    "base310p": "310p",
    "card310px2": "310p-duo-card",
    "chip310px2": "310p-duo-chip",
}
NOT_SUPPORTED = {"multilevel"}
#: The policy of soft shares: its pods request a part of a chip, and no board is chosen by it.
SHARES = {"softshare"}
#: `sp-block` is checked by the SuperPoD rules, `host-arch` by the node selector.
SUPERPODS = {"a3_superpod16", "a3_superpod8", "chip8node8sp"}
#: Settings are read with the configuration file, ranks are written by the machine: see tests/place.
OTHER_ROOMS = {"config_param", "rank_annotation"}

CASES: list[Case] = json.loads((Path(__file__).parents[1] / "vectors" / "node.json").read_text())


def needs_sp_block(case: Case) -> bool:
    return case["board"] in SUPERPODS and case.get("sp_block") is not None


def needs_node_selector(case: Case) -> bool:
    return case["kind"] == "single_node" and case.get("node_arch") != case.get("pod_arch")


def of_kind(kind: str) -> pytest.MarkDecorator:
    cases = [
        case
        for case in CASES
        if case["kind"] == kind and not needs_sp_block(case) and not needs_node_selector(case)
    ]
    by_board: dict[str, list[Case]] = {}
    for case in cases:
        by_board.setdefault(case["board"], []).append(case)
    return pytest.mark.parametrize("cases", by_board.values(), ids=by_board)


@contextmanager
def named(case: Case) -> Iterator[None]:
    """A failure says which of several cases it is."""
    try:
        yield
    except Exception as error:
        error.add_note(f"case {case['id']}")
        raise


def test_every_case_is_run_here_or_left_out_for_a_reason() -> None:
    run = {
        "single_node",
        "node_list",
        "job_validity",
        "policy_selection",
        "score_adjust",
        "score_table",
        "free_chip_calc",
        "node_stability",
    }
    assert {case["kind"] for case in CASES} == run | OTHER_ROOMS
    assert {case["board"] for case in CASES} - {"n/a", "any"} <= set(BOARDS)
    assert {case["id"] for case in CASES if needs_node_selector(case)} == {"g21-pred-arch-missing"}


def board_of(case: Case) -> Board:
    name = BOARDS[case["board"]]
    if (case.get("job_labels") or {}).get("distributed") == "true":
        name += "-distributed"
    return shipped_boards()[name]


def job_refusal(case: Case) -> Reason | None:
    pods: int = case["tasks"]
    old = case["board"].endswith("_2021")
    return check_requests(
        board_of(case), [case["request"]] * pods, multi_pod_requests="document" if old else "vendor"
    )


def node_of(case: Case, node: Case) -> ClusterState:
    """The node from its report; one that lists nothing has no chips."""
    unhealthy = node.get("unhealthy") or {"chip": [], "network": []}
    allocatable = node.get("allocatable", node.get("capacity"))
    if allocatable is None:
        # Unknown to Kubernetes: what is listed and not faulty.
        allocatable = board_of(case).chips_per_node - len(unhealthy["chip"])
    return one_node(
        report=device_report(
            node["free_chips"] or (), unhealthy=unhealthy["chip"], network=unhealthy["network"]
        ),
        allocatable=allocatable,
        self_maintain=False,
        labels=node.get("node_labels"),
    )


@of_kind("single_node")
def test_one_node_N3_N4_N5(cases: list[Case]) -> None:
    for case in cases:
        with named(case):
            check_one_node(case)


def check_one_node(case: Case) -> None:
    expect = case["expect"]
    refusal = job_refusal(case)
    if expect["rejected_at"] == "job-validity":
        assert refusal is not None
        assert refusal.fixes
        return
    assert refusal is None
    answer = ask(board_of(case), node_of(case, case), case["request"], case["tasks"] > 1)
    if not expect["accept"]:
        assert isinstance(answer, Reason)
        assert answer.message
        assert answer.fixes
        return
    assert isinstance(answer, NodeFit), answer
    if expect["score"] is not None:
        assert answer.score == expect["score"]
    if "group" in expect:
        assert answer.group == expect["group"]
    if expect["chips"] is not None:
        assert list(answer.chips) == expect["chips"]
    elif "chips_set" in expect:
        assert sorted(answer.chips) == sorted(expect["chips_set"])
    else:
        assert len(set(answer.chips)) == case["request"]
        assert set(answer.chips) <= set(case["free_chips"])


@of_kind("node_list")
def test_several_nodes_N3_N4(cases: list[Case]) -> None:
    for case in cases:
        with named(case):
            check_several_nodes(case)


def check_several_nodes(case: Case) -> None:
    board, expect = board_of(case), case["expect"]
    answers = {
        node["name"]: ask(board, node_of(case, node), case["request"], case["tasks"] > 1)
        for node in case["nodes"]
    }
    scores = {name: fit.score for name, fit in answers.items() if isinstance(fit, NodeFit)}
    assert bool(scores) == expect["accept"]
    if "score" in expect:
        assert scores == expect["score"]
        return
    assert {name: scores.get(name) for name in answers} == expect["score_2026"]
    assert {name: fit.group if isinstance(fit, NodeFit) else None for name, fit in answers.items()} == expect[
        "groups"
    ]
    assert sorted(set(answers) - set(scores)) == sorted(expect["rejected"])
    order = [
        sorted(name for name in scores if scores[name] == score)
        for score in sorted(set(scores.values()), reverse=True)
    ]
    assert order == [sorted(equals) for equals in expect["order"]]
    assert expect["best"] == (order[0][0] if order else None)


@of_kind("job_validity")
def test_job_N2(cases: list[Case]) -> None:
    for case in cases:
        with named(case):
            check_job(case)


def check_job(case: Case) -> None:
    requests = case["request"] if case["request"] is not None else [case["total_request"]]
    exempt = [spec == "scheduler" for spec in case.get("task_spec") or []] or [
        "scheduler" in case.get("note", "")
    ] * len(requests)
    if case["board"] in SUPERPODS and case["tasks"] is None:
        # These cases are about each pod of a job of several.
        requests, exempt = requests * 2, exempt * 2
    refusal = check_requests(board_of(case), requests, exempt=exempt, total=case.get("total_request"))
    assert (refusal is None) == case["expect"]["accept"], refusal


@of_kind("policy_selection")
def test_policy_N1(cases: list[Case]) -> None:
    for case in cases:
        with named(case):
            check_policy(case)


def check_policy(case: Case) -> None:
    wanted = case["expect"]["policy"]
    for resource in case["resource"].split(" or "):
        chosen = select_board(
            shipped_catalog(),
            PolicyFacts(
                resource,
                case.get("annotations") or {},
                case.get("job_labels") or {},
                (case.get("node_selector") or {}).get("accelerator-type", ""),
            ),
        )
        if wanted in SHARES:
            assert case["annotations"][SCHEDULE_POLICY] == SOFT_SHARE_POLICY
        elif wanted is None or wanted in NOT_SUPPORTED:
            assert isinstance(chosen, Reason)
            assert (chosen.code == "policy-not-supported") == (wanted in NOT_SUPPORTED)
        else:
            assert isinstance(chosen, Board)
            assert chosen.name == BOARDS[wanted]


@of_kind("score_adjust")
def test_best_node_N3a(cases: list[Case]) -> None:
    for case in cases:
        with named(case):
            check_best_node(case)


def check_best_node(case: Case) -> None:
    """All cases of this kind are about pods that come back: one node's score becomes the best of all."""
    rank, previous = case["my_rank"], case["previous_nodes"]
    chosen = node_of_returning_pod(
        case["scores"],
        {int(peer): PreviousNode(node, faulty=case["fault_pod"]) for peer, node in previous.items()},
        rank,
    )
    assert [chosen] == list(case["expect"]["changed"])


def filled(table: ScoreTable) -> list[list[int]]:
    size = max(free for row in table.rows.values() for free in row)
    return [
        [table.rows.get(request, {}).get(free, table.no_fit_value) for free in range(1, size + 1)]
        for request in range(1, size + 1)
    ]


@of_kind("score_table")
def test_score_table_N4(cases: list[Case]) -> None:
    for case in cases:
        with named(case):
            check_score_table(case)


def check_score_table(case: Case) -> None:
    expect = case["expect"]
    if "table" in expect:
        (table,) = chip_rule(board_of(case)).tables()
        assert filled(table) == expect["table"]
        assert table.no_fit_value == expect["unfit"]
        return
    tables = chip_rule(shipped_boards()["310p-duo-chip-distributed"]).tables()
    for table, name in zip(tables, ("odd_with_half_card", "odd_without_half_card", "even"), strict=True):
        assert table.rows == {
            int(request): {int(free): misfit for free, misfit in row.items()}
            for request, row in expect[name].items()
        }


@of_kind("free_chip_calc")
def test_free_chips_N7(cases: list[Case]) -> None:
    for case in cases:
        with named(case):
            check_free_chips(case)


def check_free_chips(case: Case) -> None:
    state = one_node(
        listed=case["node_chips"],
        held=[held for held in case["pods_hold"] if held],
        report=device_report(
            case["reported_free"], unhealthy=case["unhealthy"]["chip"], recovering=case["recovering"]
        ),
        allocatable=len(case["node_chips"]),
        self_maintain=case["self_maintain"],
    )
    assert list(chips_of(fleet_of(state).free_mask[0])) == case["expect"]["free_chips"]


@of_kind("node_stability")
def test_stability_N7(cases: list[Case]) -> None:
    for case in cases:
        with named(case):
            check_stability(case)


def check_stability(case: Case) -> None:
    state = one_node(
        report=device_report(range(case["listed_free"])), allocatable=case["idle"], capacity=case["capacity"]
    )
    assert (fleet_of(state).closed[0] is None) == case["expect"]["accept"]
