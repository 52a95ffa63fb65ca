"""The rows of nodes, and what they add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from ringwise.framework.job import job_key
from ringwise.scheduler.explain.boards_present import boards_present
from ringwise.scheduler.node_states import (
    CHIP_STATES,
    ChipStates,
    NodeChips,
    chips_of_node,
    drain_ahead,
    node_states,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Node, Pod
from ringwise.topology.chips import chips_of
from ringwise.views.cluster import SwitchNames, node_row, shown_jobs
from ringwise.views.documents import dashboard as doc
from ringwise.views.parts import allocation_mode, is_shared, jobs_on, percent_of_chips
from ringwise.wellknown import ACCELERATOR_TYPE

FREE = -1


class BoardsChangedError(Exception):
    """A node has a board that the table of boards does not have: everything has to be read again."""


#: What nodes add to the totals of one resource. Of the free chips `until_drain` are on nodes that are drained
#: later, for jobs that end before; `beside_used` are on nodes with chips in use.
_COUNTED = ("chips", *CHIP_STATES, "until_drain", "beside_used")
CountsByResource = dict[str, tuple[int, ...]]


def add_counts(sums: CountsByResource, counts: CountsByResource, times: int) -> None:
    """Add in place, or take away; a resource of which no chip is left is removed."""
    for resource, one in counts.items():
        before = sums.get(resource, (0,) * len(_COUNTED))
        sums[resource] = tuple(a + times * b for a, b in zip(before, one, strict=True))
        if not sums[resource][0]:
            del sums[resource]


class NodeRowReader:
    """Makes the rows of nodes; `job_id` gives the id of a job by its key."""

    def __init__(self, view: SchedulerView, job_id: Callable[[str], int]) -> None:
        self._view = view
        self._id = job_id
        self._boards = _BoardTable(view)
        self._switches = SwitchNames(view)

    @property
    def boards(self) -> list[doc.DashboardBoard]:
        return self._boards.rows

    def read_switches(self) -> None:
        """The leaf switches are others now."""
        self._switches = SwitchNames(self._view)

    def row(self, node: Node, now: int) -> tuple[doc.DashboardNode, CountsByResource]:
        """With what it adds to the totals. Raises BoardsChangedError."""
        row, states, chips = node_row(self._view, node, now, self._switches)
        drained = drain_ahead(states, self._view.settings) is not None
        return {
            **row,
            **self._sharing(node, row["numbers"]),
            "board": self._boards.index(chips[0].resource, node) if chips else None,
            "holders": [holder for one in chips for holder in self._holders(one)],
        }, {one.resource: _counts(one.states, drained=drained) for one in chips}

    def _sharing(self, node: Node, numbers: Iterable[int]) -> doc.DashboardSharing:
        mode = allocation_mode(self._view, node.name)
        if not mode:
            return {}
        number = self._view.cluster.node_id[node.name]
        if not is_shared(self._view, number):
            return {"allocation_mode": mode}
        percent, pods = percent_of_chips(self._view, node.name), jobs_on(self._view, number)
        return {
            "allocation_mode": mode,
            "used_percent": [percent.get(chip, 0) for chip in numbers],
            "jobs_on_chips": [[self._job_id(pod) for pod in pods.get(chip, ())] for chip in numbers],
        }

    def _holders(self, chips: NodeChips) -> list[int]:
        """For each chip the id of the job that holds it."""
        held, listed = chips.holders(), chips_of(chips.states.listed)
        if not held:
            return [FREE] * len(listed)
        ids = {uid: self._job_id(pod) for uid, pod in {pod.uid: pod for pod, _ in held.values()}.items()}
        return [ids[held[chip][0].uid] if chip in held else FREE for chip in listed]

    def _job_id(self, pod: Pod) -> int:
        job = self._view.job_of(pod.uid)
        return self._id(job_key(pod) if job is None else job.key)


def _counts(masks: ChipStates, *, drained: bool) -> tuple[int, ...]:
    """The chips of one resource of a node. `drained`: later, so that not all jobs get the free ones."""
    free = masks.free.bit_count()
    by_state = (count for _, count in masks.counts())
    return (masks.listed.bit_count(), *by_state, free if drained else 0, free if masks.used else 0)


def cluster_totals(view: SchedulerView, now: int) -> doc.DashboardTotals:
    """Return the totals, counted from scratch: for samples while no client has the dashboard open."""
    state, sums = view.cluster, CountsByResource()
    # Most nodes are alike.
    groups = Counter[tuple[str, ChipStates, bool]]()
    for number in state.existing_nodes():
        states = node_states(state, number, now)
        drained = drain_ahead(states, view.settings) is not None
        groups.update(
            (chips.resource, chips.states, drained) for chips in chips_of_node(state, number, states)
        )
    for (resource, masks, drained), nodes in groups.items():
        add_counts(sums, {resource: _counts(masks, drained=drained)}, nodes)
    outcomes = Counter(one.outcome for one in shown_jobs(view))
    return totals(sums, outcomes)


def totals(counts: CountsByResource, outcomes: Mapping[str, int]) -> doc.DashboardTotals:
    resources = {resource: _chips(counts[resource]) for resource in sorted(counts)}
    return {
        "resources": resources,
        "pending": outcomes.get("pending", 0),
        "rejected": outcomes.get("rejected", 0),
        "running": outcomes.get("scheduled", 0),
    }


def _chips(counts: tuple[int, ...]) -> doc.DashboardChips:
    fields: dict[str, float] = dict(zip(_COUNTED, counts, strict=True))
    beside_used, free = fields.pop("beside_used"), fields["free"]
    fields["fragmentation"] = round(beside_used / free, 4) if free else 0.0
    return cast("doc.DashboardChips", fields)


class _BoardTable:
    """The boards of the nodes, each with the index that rows name."""

    def __init__(self, view: SchedulerView) -> None:
        self.rows: list[doc.DashboardBoard] = []
        self._serving = view.catalog.serving
        reported: dict[str, list[str]] = {}
        for name, resource in view.cluster.reports:
            reported.setdefault(name, []).append(resource)
        self._index: dict[tuple[str, str], int | None] = {
            (resource, node.labels.get(ACCELERATOR_TYPE, "")): None
            for node in view.cluster.nodes
            if node is not None
            # The chips of divided ones have no capacity, but a device report.
            for resource in {*node.chips_capacity, *reported.get(node.name, ())}
        }
        for resource, label, board in boards_present(view, shared=True):
            self._index[resource, label] = len(self.rows)
            self.rows.append(
                doc.DashboardBoard(
                    name=board.name,
                    title=board.title,
                    resource=resource,
                    accelerator=label,
                    chips=board.chips_per_node,
                    rings=[list(ring) for ring in board.rings],
                    ring_kind=board.ring_kind,
                )
            )

    def index(self, resource: str, node: Node) -> int | None:
        key = resource, node.labels.get(ACCELERATOR_TYPE, "")
        if key not in self._index and self._serving(resource):
            raise BoardsChangedError(" ".join(key))
        index = self._index.get(key)
        return self._index.get((resource, "")) if index is None else index
