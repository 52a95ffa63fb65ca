"""A cluster of one node and a real session, for the worked cases of one node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ringwise.framework.policy import ChipPolicy
from ringwise.placement.rules import chip_rule
from ringwise.reasons import Reason
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import Fleet
from ringwise.state.model import Device, DeviceReport, Node
from ringwise.topology.board import Board
from ringwise.topology.chips import mask_of
from tests.builders.session_lab import cluster
from tests.builders.values import CHIP, pod

NODE = "node-0"


@dataclass(frozen=True, slots=True)
class NodeFit:
    score: int
    chips: tuple[int, ...]
    group: str | None = None


def one_node(
    *,
    listed: Iterable[int] | None = None,
    held: Sequence[Sequence[int]] = (),
    report: DeviceReport | None = None,
    allocatable: int,
    capacity: int | None = None,
    self_maintain: bool = True,
    labels: Mapping[str, str] | None = None,
) -> ClusterState:
    """A cluster of one node. Every list of `held` is what one pod names and requested."""
    state = ClusterState(self_maintain=self_maintain)
    state.put_node(
        Node(
            NODE,
            labels=dict(labels or {}),
            chips_allocatable={CHIP: allocatable},
            chips_capacity={CHIP: allocatable if capacity is None else capacity},
            devices=None if listed is None else tuple(Device(chip) for chip in listed),
        )
    )
    for number, chips in enumerate(held):
        name = f"old-{number}"
        state.put_pod(pod(name, len(chips), on=NODE, phase="Running", holds=tuple(chips)))
    if report is not None:
        state.put_report(report)
    state.settle()
    return state


def fleet_of(state: ClusterState) -> Fleet:
    return state.fleets[CHIP]


def device_report(
    free: Iterable[int],
    *,
    unhealthy: Iterable[int] = (),
    recovering: Iterable[int] = (),
    network: Iterable[int] | None = (),
) -> DeviceReport:
    return DeviceReport(
        NODE,
        CHIP,
        free=mask_of(free),
        unhealthy=mask_of(unhealthy),
        recovering=mask_of(recovering),
        network_unhealthy=None if network is None else mask_of(network),
    )


def ask(board: Board, state: ClusterState, request: int, multi_pod: bool) -> NodeFit | Reason:
    """What a pod of a job with this board hears from the node."""
    lab = cluster()
    lab.state = state
    lab.job("train", chips=request)
    job = lab["train"]
    rule = chip_rule(board)
    job.policy = ChipPolicy(CHIP, board, rule, multi_pod, multi_pod and board.checks_network)
    state.watch_labels(key for key, _ in board.node_labels)
    asking = lab.session("topology910").node_selection(job, job.in_order[0])
    score, reason = asking.verdict(0)
    if score is None:
        assert reason is not None
        return reason
    fleet = fleet_of(state)
    signature = rule.signature(asking.usable(0), fleet.allocatable[0], fleet.faulty[0])
    return NodeFit(score, asking.chips_on(0), rule.group(signature, request))
