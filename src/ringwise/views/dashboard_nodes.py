"""The rows of nodes, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ringwise.framework.job import job_key
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.cluster_reader import ChipTable
from ringwise.scheduler.explain.boards_present import boards_present
from ringwise.scheduler.view import SchedulerView
from ringwise.state.fleet import HOSTS
from ringwise.state.model import Node
from ringwise.state.node_health import SUB_HEALTH_LEVEL
from ringwise.state.reasons import NODE_ISOLATED, NODE_NOT_READY
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of, mask_of
from ringwise.topology.switches import SwitchTopology
from ringwise.views.cluster import isolated_chips
from ringwise.views.documents.dashboard import DashboardBoard, DashboardNode, DashboardTotals
from ringwise.wellknown import ACCELERATOR_TYPE

FREE = -1
READY, NOT_READY, UNSCHEDULABLE, ISOLATED = "ready", "not-ready", "unschedulable", "isolated"


class BoardsChangedError(Exception):
    """A node has a board that the table of boards does not have: everything has to be read again."""


@dataclass(slots=True)
class NodeCounts:
    """What nodes add to the totals."""

    chips: int = 0
    free: int = 0
    used: int = 0
    faulty: int = 0
    isolated: int = 0
    #: Free chips on nodes with chips in use.
    beside_used: int = 0

    def add(self, other: NodeCounts, sign: int) -> None:
        self.chips += sign * other.chips
        self.free += sign * other.free
        self.used += sign * other.used
        self.faulty += sign * other.faulty
        self.isolated += sign * other.isolated
        self.beside_used += sign * other.beside_used


class NodeRowReader:
    """Makes the rows of nodes; `job_id` gives the id of a job by its key."""

    def __init__(self, view: SchedulerView, job_id: Callable[[str], int]) -> None:
        self._view = view
        self._id = job_id
        self._boards = _BoardTable(view)
        self._switches = _SwitchNames(view)

    @property
    def boards(self) -> list[DashboardBoard]:
        return self._boards.rows

    def read_switches(self) -> None:
        """The leaf switches are others now."""
        self._switches = _SwitchNames(self._view)

    def row(self, number: int, node: Node) -> DashboardNode:
        """Raises BoardsChangedError."""
        state = self._view.cluster
        position = state.position_of(number)
        numbers: list[int] = []
        holders: list[int] = []
        health: list[str] = []
        board: int | None = None
        closed: Reason | None = None
        for resource in sorted(node.chips_capacity):
            fleet = state.fleets.get(resource)
            if fleet is None or resource == HOSTS or fleet.allocatable[number] < 0:
                continue
            if board is None:
                board = self._boards.index(resource, node)
            closed = closed or fleet.closed[number]
            chips = chips_of(fleet.listed[number])
            held = self._holders(number, resource) if fleet.taken(number) else {}
            numbers += chips
            holders += [held.get(chip, FREE) for chip in chips]
            health += self._health(number, node.name, fleet, resource, chips)
        status, why = self._state(number, node, closed)
        return {
            "name": node.name,
            "board": board,
            "switch": self._switches.of(node),
            "superpod": _named(position.superpod),
            "rack": _named(position.rack),
            "state": status,
            "why": why,
            "numbers": numbers,
            "holders": holders,
            "health": "".join(health),
        }

    def _holders(self, number: int, resource: str) -> dict[int, int]:
        """Chip -> id of the job that holds it; the first by name where several pods claim one (N6), and that
        may have it where nobody holds it (N8).
        """
        view, found, doubtful = self._view, dict[int, int](), dict[int, int]()
        for uid in view.cluster.pods_on[number]:
            placement = view.cluster.pods[uid]
            if placement.pod.cls.resource == resource and (placement.chips or placement.doubtful):
                job = view.job_of(uid)
                holder = self._id(job.key if job is not None else job_key(placement.pod))
                for chips, holders in ((placement.chips, found), (placement.doubtful, doubtful)):
                    for chip in chips_of(chips):
                        holders[chip] = min(holders.get(chip, holder), holder)
        return doubtful | found

    def _health(
        self, number: int, name: str, fleet: ChipTable, resource: str, chips: tuple[int, ...]
    ) -> list[str]:
        faulty = fleet.broken(number)
        isolated = isolated_chips(self._view, fleet, number)
        network = max(0, fleet.network[number])
        usual = "u" if fleet.assumed[number] else "h"
        if not (faulty or isolated or network) and number not in self._view.cluster.sub_healthy:
            return [usual] * len(chips)
        report = self._view.cluster.report_of(name, resource)
        faults = report.faults if report is not None else ()
        weak = mask_of(fault.chip for fault in faults if fault.level == SUB_HEALTH_LEVEL)
        letters = (("f", faulty), ("i", isolated), ("n", network), ("s", weak))
        return [next((letter for letter, mask in letters if mask >> chip & 1), usual) for chip in chips]

    def _state(self, number: int, node: Node, closed: Reason | None) -> tuple[str, str]:
        if not node.ready:
            return NOT_READY, NODE_NOT_READY(node=node.name).message
        isolation = self._view.cluster.isolated_nodes.get(number)
        if isolation is not None:
            return ISOLATED, NODE_ISOLATED(node=node.name, **isolation.details).message
        if node.unschedulable:
            return UNSCHEDULABLE, "it is cordoned"
        if closed is not None:
            return UNSCHEDULABLE, closed.message
        weak = self._view.cluster.sub_healthy.get(number)
        return READY, "" if weak is None else f"{weak} is sub-healthy"


def counts_of(view: SchedulerView, number: int, node: Node) -> NodeCounts:
    """What a node adds to the totals, from its masks."""
    state, counts = view.cluster, NodeCounts()
    for resource in node.chips_capacity:
        fleet = state.fleets.get(resource)
        if fleet is None or resource == HOSTS or fleet.allocatable[number] < 0:
            continue
        listed = fleet.listed[number]
        faulty = listed & fleet.broken(number)
        isolated = listed & isolated_chips(view, fleet, number) & ~faulty
        used = listed & fleet.taken(number)
        counts.chips += listed.bit_count()
        counts.used += used.bit_count()
        counts.faulty += faulty.bit_count()
        counts.isolated += isolated.bit_count()
        if node.ready and not node.unschedulable and fleet.closed[number] is None:
            counts.free += (listed & ~(used | faulty | isolated)).bit_count()
    if counts.used:
        counts.beside_used = counts.free
    return counts


def cluster_totals(view: SchedulerView) -> DashboardTotals:
    """The totals, counted from the beginning: for samples while nobody has the rows."""
    state, sums = view.cluster, NodeCounts()
    for number in state.known_nodes():
        node = state.nodes[number]
        if node is not None:
            sums.add(counts_of(view, number, node), 1)
    waiting = sum(1 for job in view.jobs.values() if job.waiting_since is not None)
    running = sum(1 for job in view.jobs.values() if job.started is not None)
    return totals(sums, waiting, running)


def totals(counts: NodeCounts, waiting: int, running: int) -> DashboardTotals:
    return {
        "chips": counts.chips,
        "free": counts.free,
        "used": counts.used,
        "faulty": counts.faulty,
        "isolated": counts.isolated,
        "waiting": waiting,
        "running": running,
        "fragmentation": round(counts.beside_used / counts.free, 4) if counts.free else 0.0,
    }


class _BoardTable:
    """The boards of the nodes, each with the index that rows name."""

    def __init__(self, view: SchedulerView) -> None:
        self.rows: list[DashboardBoard] = []
        self._serving = view.catalog.serving
        self._index: dict[tuple[str, str], int | None] = {
            (resource, node.labels.get(ACCELERATOR_TYPE, "")): None
            for node in view.cluster.nodes
            if node is not None
            for resource in node.chips_capacity
        }
        for resource, label, board in boards_present(view):
            self._index[resource, label] = len(self.rows)
            self.rows.append(_board_row(board, label))

    def index(self, resource: str, node: Node) -> int | None:
        key = resource, node.labels.get(ACCELERATOR_TYPE, "")
        if key not in self._index and self._serving(resource):
            raise BoardsChangedError(" ".join(key))
        found = self._index.get(key)
        return self._index.get((resource, "")) if found is None else found


def _board_row(board: Board, label: str) -> DashboardBoard:
    return DashboardBoard(
        name=board.name,
        title=board.title,
        accelerator=label,
        chips=board.chips_per_node,
        rings=[list(ring) for ring in board.rings],
        ring_word=board.ring_word,
    )


class _SwitchNames:
    """The leaf switch of each node, by the address that the ConfigMap names."""

    def __init__(self, view: SchedulerView) -> None:
        self._names = _switch_names(view.switch_topology)

    def of(self, node: Node) -> str:
        return self._names.get(node.internal_ip or node.name, "")


def _switch_names(topology: SwitchTopology | None) -> Mapping[str, str]:
    if topology is None:
        return {}
    return {server.server_ip: switch.ip for switch in topology.switches for server in switch.servers}


def _named(number: int | None) -> str:
    """The number of a SuperPoD or rack; a device report says -1 where there is none."""
    return "" if number is None or number < 0 else str(number)
