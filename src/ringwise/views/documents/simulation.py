"""The document of `ringwise simulate`."""

from __future__ import annotations

from typing import Annotated, Literal

from ringwise.views.documents.common import Document, Fields, doc


class WaitFields(Fields):
    """How long jobs waited until they started first, in seconds; null where none has started."""

    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None


class SizeFields(Fields):
    """Jobs of one size."""

    chips: int
    jobs: int
    started: int
    pending_seconds: WaitFields


class CurvePoint(Fields):
    """A moment of a run."""

    after_seconds: float
    chips_in_use: int
    pending_jobs: int


class MoveFields(Fields):
    """Running jobs that were moved so that others could start: only with the setting `defragment: auto`."""

    plans: int
    failed_plans: Annotated[int, doc("Plans after which the pending job did not start.")]
    jobs: Annotated[int, doc("Moved jobs; a job that was moved twice is counted twice.")]
    chips: Annotated[int, doc("Their chips.")]
    cost_chip_hours: Annotated[float, doc("Their chips times the cost of a restart.")]


class EstimateFields(Fields):
    """When jobs that waited were expected to start, as the scheduler said when they were submitted.

    Of some of them, in equal distances, and only of those that have started.
    """

    jobs: int
    ranges: Annotated[int, doc("Estimates with an earliest and a latest time.")]
    not_before: Annotated[int, doc("Estimates with only an earliest time.")]
    estimated_durations: Annotated[int, doc("Estimates with estimated durations.")]
    median_error_seconds: Annotated[
        float | None, doc("Difference between the middle of the range and the start; null without ranges.")
    ]
    p90_error_seconds: float | None
    within_range_ratio: Annotated[float | None, doc("Ratio of estimates that the start confirmed.")]


class RunFields(Fields):
    """The results with one configuration or policy, or with the counting bound."""

    name: str
    kind: Annotated[
        Literal["bound", "configuration", "policy"], doc("bound: counts only chips, in strict order.")
    ]
    settings: Annotated[dict[str, str], doc("Settings that differ from the configuration.")]
    policy: str | None
    started: Annotated[int, doc("Jobs that have started.")]
    pending_seconds: WaitFields
    mean_over_bound: Annotated[
        float | None, doc("Mean pending time divided by that of the bound; null if one is 0 or unknown.")
    ]
    started_before_bound: Annotated[
        int, doc("Jobs that started earlier than in the bound; none with a strict order.")
    ]
    utilization: Annotated[float, doc("Ratio of used chips, until the last job was submitted.")]
    head_blocked_hours: Annotated[
        float, doc("Time that the first job was pending although enough chips were free.")
    ]
    idle_chip_hours_while_blocked: Annotated[float, doc("Free chips during this time.")]
    restarts: Annotated[int, doc("Runs that ended because of faults or evictions.")]
    lost_chip_hours: Annotated[float, doc("Usage of those runs.")]
    moves: MoveFields
    estimates: Annotated[EstimateFields | None, doc("null if no estimates were computed.")]
    sizes: list[SizeFields]
    curve: list[CurvePoint]


class LeftOutJobs(Fields):
    """Jobs that are not simulated."""

    message: str
    jobs: int


class SimulatedCluster(Fields):
    board: str
    nodes: int
    chips: int
    leaf_size: int | None
    superpod_size: int | None


class SimulationDocument(Document, tag="ringwise.io/simulation/v1"):
    """The same jobs under several configurations, in virtual time. The first run is the counting bound."""

    title: str
    seed: str
    interrupted: Annotated[bool, doc("Interrupted with Ctrl-C; the last run is incomplete.")]
    cluster: SimulatedCluster
    jobs: int
    omitted: list[LeftOutJobs]
    virtual_seconds: Annotated[float, doc("Time between the first and the last submission.")]
    load: Annotated[float, doc("Average requested chips divided by all chips.")]
    runs: list[RunFields]
