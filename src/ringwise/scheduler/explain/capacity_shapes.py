"""What a count of the capacity finds."""

from __future__ import annotations

from ringwise.records import dataclass
from ringwise.scheduler.node_states import BeforeDrain


@dataclass(frozen=True, slots=True)
class JobShape:
    """Jobs of one form. `jobs` would start now, at most `upper_bound` if running jobs were moved."""

    shape: str
    #: one-pod, gang, block, switches, share
    kind: str
    chips_per_pod: int
    pods: int
    jobs: int
    upper_bound: int
    #: Free chips that no job of this shape can use.
    stranded_chips: int


@dataclass(frozen=True, slots=True)
class ChipCounts:
    """Where the chips of one board are."""

    nodes: int
    chips: int
    used: int
    faulty: int
    isolated: int
    reserved: int
    #: On nodes that do not accept new pods.
    unschedulable: int
    free: int
    #: Of the free ones: with a broken network port, for one-pod jobs only.
    network_faulty: int
    #: Of the free ones: on nodes that are drained later, for jobs that end before. Shapes give no duration.
    until_drain: int


@dataclass(frozen=True, slots=True)
class BoardCapacity:
    board: str
    resource: str
    #: That selects these nodes; None: all nodes of the resource.
    accelerator_type: str | None
    chips: ChipCounts
    #: Whole nodes that one gang could have.
    largest_gang: int
    shapes: tuple[JobShape, ...]
    #: Where the `until_drain` chips are, by time.
    drains: tuple[BeforeDrain, ...] = ()
    #: What was not counted to the end because the budget was used up, as sentences.
    omitted: tuple[str, ...] = ()
