"""Nodes to reserve for a queue or a namespace: which are free soonest, and who still runs there then."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from ringwise.durations import time_text
from ringwise.grammar import agrees, counted
from ringwise.records import dataclass
from ringwise.scheduler.explain.boards_present import boards_present
from ringwise.scheduler.explain.forecast import all_runs
from ringwise.scheduler.node_states import NodeState, chips_of_node, is_open, node_states
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import NodeReservation
from ringwise.state.node_windows import NodeReservationTable
from ringwise.topology.natural import natural_key
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import ACCELERATOR_TYPE


class NotReservableError(LookupError):
    """What was asked for cannot be reserved; one line that says why."""


@dataclass(frozen=True, slots=True)
class OverlappingJob:
    """A job of others on nodes of a reservation that is not known to end before it begins."""

    job: str
    pods: int
    #: When it is expected to end at the latest, in nanoseconds; None: it does not say.
    ends: int | None


def nodes_free_soonest(
    view: SchedulerView, now: int, start: int, end: int, count: int, board: str = ""
) -> tuple[str, ...]:
    """So many nodes of one board: those that are wholly free soonest by what is known, then by name.

    Nodes with faulty or isolated chips come last. Those are left out that take no pods, are drained before
    the end, or are reserved at that time. Raises NotReservableError.
    """
    by_board = _nodes_by_board(view)
    if board and board not in by_board:
        raise NotReservableError(f"no node has the board {board}{did_you_mean(board, by_board)}")
    if not board and len(by_board) > 1:
        boards = ", ".join(f"{name} ({counted(nodes, 'node')})" for name, nodes in by_board.items())
        raise NotReservableError(f"the nodes have several boards, {boards}: choose one with --board")
    wanted = by_board[board] if board else next(iter(by_board.values()), [])
    reserved = {
        node
        for one in view.cluster.node_reservations.entries
        if one.start < end and start < one.end
        for node in one.nodes
    }
    free_at = _free_at(view, now)
    rows: list[tuple[bool, float, tuple[object, ...], str]] = []
    for number in wanted:
        name, states = view.cluster.names[number], node_states(view.cluster, number, now)
        drained = any(one.state is NodeState.DRAINING and (one.start or 0) < end for one in states)
        if name in reserved or drained or not is_open(states):
            continue
        broken = any(
            one.states.faulty or one.states.isolated for one in chips_of_node(view.cluster, number, states)
        )
        rows.append((broken, free_at.get(number, now), natural_key(name), name))
    if len(rows) < count:
        of = f" of board {board}" if board else ""
        raise NotReservableError(
            f"{counted(rows, 'node')}{of} can be reserved from {time_text(start)} to {time_text(end)}, and "
            f"{count} {agrees(count, 'is', 'are')} requested: the others accept no pods, are drained "
            "before the end, or are reserved"
        )
    chosen = sorted(rows)[:count]
    return tuple(sorted((one[-1] for one in chosen), key=natural_key))


def _nodes_by_board(view: SchedulerView) -> Mapping[str, list[int]]:
    boards = {(resource, kind): board.name for resource, kind, board in boards_present(view)}
    nodes: dict[str, list[int]] = {}
    for number in view.cluster.existing_nodes():
        node = view.cluster.nodes[number]
        label = node.labels.get(ACCELERATOR_TYPE, "") if node is not None else ""
        for chips in chips_of_node(view.cluster, number, ()):
            board = boards.get((chips.resource, label)) or boards.get((chips.resource, ""))
            if board is not None and chips.states.listed:
                nodes.setdefault(board, []).append(number)
                break
    return dict(sorted(nodes.items(), key=lambda item: natural_key(item[0])))


def _free_at(view: SchedulerView, now: int) -> dict[int, float]:
    """Node -> when the last job on it is expected to have ended."""
    result: dict[int, float] = {}
    for run in all_runs(view, now):
        end = inf if run.latest is None else run.latest
        for uid in run.pods:
            placement = view.cluster.pods[uid]
            if placement.node >= 0 and placement.chips:
                result[placement.node] = max(result.get(placement.node, 0), end)
    return result


def running_then(
    view: SchedulerView, now: int, reservations: Iterable[NodeReservation]
) -> dict[str, list[OverlappingJob]]:
    """By name of the reservation: jobs of others that are not known to end before it begins. They stay."""
    wanted = list(reservations)
    of_node = defaultdict[int, list[NodeReservation]](list)
    for one in wanted:
        for name in one.nodes:
            if name in view.cluster.node_id:
                of_node[view.cluster.node_id[name]].append(one)
    result: dict[str, list[OverlappingJob]] = {one.name: [] for one in wanted}
    for run in all_runs(view, now) if of_node else ():
        pods = Counter[str]()
        for uid in run.pods:
            placement = view.cluster.pods[uid]
            for one in of_node[placement.node] if placement.chips else ():
                late = run.latest is None or run.latest > max(one.start, now)
                if late and not one.admits(run.job.queue, run.job.namespace):
                    pods[one.name] += 1
        job = run.job.full_name if run.job.key else view.cluster.pods[run.pods[0]].pod.key
        for name, number in pods.items():
            result[name].append(OverlappingJob(job, number, run.latest))
    for runs in result.values():
        runs.sort(key=lambda one: natural_key(one.job))
    return result


def overlap(one: NodeReservation, others: Sequence[NodeReservation]) -> str:
    """What keeps it from being added to the others; empty: nothing."""
    if any(other.name == one.name for other in others):
        return f"reservation {one.name} already exists"
    return NodeReservationTable(others).overlap(one)
