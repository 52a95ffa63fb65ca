"""The rows of nodes, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ringwise.framework.job import job_key
from ringwise.manifests.quantities import rfc3339
from ringwise.records import dataclass
from ringwise.scheduler.cluster_reader import ChipTable
from ringwise.scheduler.explain.boards_present import boards_present
from ringwise.scheduler.node_states import (
    ChipStates,
    chip_states,
    drain_ahead,
    is_open,
    node_states,
    offered,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Node
from ringwise.state.node_health import SUB_HEALTH_LEVEL
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of, mask_of
from ringwise.topology.switches import SwitchTopology
from ringwise.views.documents.dashboard import (
    DashboardBoard,
    DashboardChips,
    DashboardNode,
    DashboardTotals,
)
from ringwise.views.pictures import isolated_chips
from ringwise.wellknown import ACCELERATOR_TYPE

FREE = -1
#: A letter for the state in which a chip counts.
LETTERS = {"used": "u", "faulty": "f", "isolated": "i", "reserved": "r", "closed": "c", "free": "."}


class BoardsChangedError(Exception):
    """A node has a board that the table of boards does not have: everything has to be read again."""


@dataclass(slots=True)
class NodeCounts:
    """What nodes add to the totals of one resource."""

    chips: int = 0
    used: int = 0
    faulty: int = 0
    isolated: int = 0
    reserved: int = 0
    closed: int = 0
    free: int = 0
    #: Of the free ones: on nodes that are drained later, for jobs that end before.
    before_drain: int = 0
    #: Free chips on nodes with chips in use.
    beside_used: int = 0

    def add(self, other: NodeCounts, sign: int) -> None:
        self.chips += sign * other.chips
        self.used += sign * other.used
        self.faulty += sign * other.faulty
        self.isolated += sign * other.isolated
        self.reserved += sign * other.reserved
        self.closed += sign * other.closed
        self.free += sign * other.free
        self.before_drain += sign * other.before_drain
        self.beside_used += sign * other.beside_used


CountsByResource = dict[str, NodeCounts]


def add_counts(sums: CountsByResource, counts: CountsByResource, sign: int) -> None:
    """Add in place; a resource of which no chip is left is removed."""
    for resource, one in counts.items():
        known = sums.get(resource)
        if known is None:
            known = sums[resource] = NodeCounts()
        known.add(one, sign)
        if not known.chips:
            del sums[resource]


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

    def row(self, number: int, node: Node, now: int) -> tuple[DashboardNode, CountsByResource]:
        """With what it adds to the totals. Raises BoardsChangedError."""
        state = self._view.cluster
        position = state.position_of(number)
        numbers: list[int] = []
        holders: list[int] = []
        health: list[str] = []
        letters: list[str] = []
        board: int | None = None
        states, counts = node_states(state, number, now), CountsByResource()
        drained = drain_ahead(states, self._view.settings) is not None
        for resource, fleet in sorted(offered(state, number)):
            if board is None:
                board = self._boards.index(resource, node)
            chips = chips_of(fleet.listed[number])
            held = self._holders(number, resource) if fleet.taken(number) else {}
            numbers += chips
            holders += [held.get(chip, FREE) for chip in chips]
            health += self._health(number, node.name, fleet, resource, chips)
            masks = chip_states(state, number, fleet, is_open=is_open(states))
            letters += _letters(masks, chips)
            counts[resource] = _counts(masks, drained=drained)
        worst = states[0]
        row: DashboardNode = {
            "name": node.name,
            "board": board,
            "switch": self._switches.of(node),
            "superpod": _named(position.superpod),
            "rack": _named(position.rack),
            "open": is_open(states),
            "state": worst.state.value,
            "why": worst.why,
            "drain": next((rfc3339(one.start) for one in states if one.start is not None), ""),
            "numbers": numbers,
            "holders": holders,
            "states": "".join(letters),
            "health": "".join(health),
        }
        return row, counts

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
        isolated = isolated_chips(self._view.cluster, fleet, number)
        network = max(0, fleet.network[number])
        usual = "u" if fleet.assumed[number] else "h"
        if not (faulty or isolated or network) and number not in self._view.cluster.sub_healthy:
            return [usual] * len(chips)
        report = self._view.cluster.report_of(name, resource)
        faults = report.faults if report is not None else ()
        weak = mask_of(fault.chip for fault in faults if fault.level == SUB_HEALTH_LEVEL)
        letters = (("f", faulty), ("i", isolated), ("n", network), ("s", weak))
        return [next((letter for letter, mask in letters if mask >> chip & 1), usual) for chip in chips]


def _letters(masks: ChipStates, chips: tuple[int, ...]) -> Iterable[str]:
    if masks.free == masks.listed:
        return LETTERS["free"] * len(chips)
    by_chip = {chip: LETTERS[name] for name, mask in masks.by_state() for chip in chips_of(mask)}
    return (by_chip[chip] for chip in chips)


def _counts(masks: ChipStates, *, drained: bool) -> NodeCounts:
    """The chips of one resource of a node. `drained`: later, so that not all jobs get the free ones."""
    free = masks.free.bit_count()
    return NodeCounts(
        masks.listed.bit_count(),
        masks.used.bit_count(),
        masks.faulty.bit_count(),
        masks.isolated.bit_count(),
        masks.reserved.bit_count(),
        masks.closed.bit_count(),
        free,
        free if drained else 0,
        free if masks.used else 0,
    )


def cluster_totals(view: SchedulerView, now: int) -> DashboardTotals:
    """The totals, counted from the beginning: for samples while nobody has the rows."""
    state, sums = view.cluster, CountsByResource()
    for number in state.known_nodes():
        states = node_states(state, number, now)
        opened, drained = is_open(states), drain_ahead(states, view.settings) is not None
        for resource, fleet in offered(state, number):
            masks = chip_states(state, number, fleet, is_open=opened)
            add_counts(sums, {resource: _counts(masks, drained=drained)}, 1)
    waiting = sum(1 for job in view.jobs.values() if job.waiting_since is not None)
    running = sum(1 for job in view.jobs.values() if job.started is not None)
    return totals(sums, waiting, running)


def totals(counts: CountsByResource, waiting: int, running: int) -> DashboardTotals:
    resources = {resource: _chips(counts[resource]) for resource in sorted(counts)}
    return {"resources": resources, "waiting": waiting, "running": running}


def _chips(counts: NodeCounts) -> DashboardChips:
    return {
        "chips": counts.chips,
        "used": counts.used,
        "faulty": counts.faulty,
        "isolated": counts.isolated,
        "reserved": counts.reserved,
        "closed": counts.closed,
        "free": counts.free,
        "before_drain": counts.before_drain,
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
            self.rows.append(_board_row(board, resource, label))

    def index(self, resource: str, node: Node) -> int | None:
        key = resource, node.labels.get(ACCELERATOR_TYPE, "")
        if key not in self._index and self._serving(resource):
            raise BoardsChangedError(" ".join(key))
        found = self._index.get(key)
        return self._index.get((resource, "")) if found is None else found


def _board_row(board: Board, resource: str, label: str) -> DashboardBoard:
    return DashboardBoard(
        name=board.name,
        title=board.title,
        resource=resource,
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
