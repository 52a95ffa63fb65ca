"""The document of `ringwise simulate`."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta


class WaitFields(TypedDict):
    """How long jobs waited until they started first, in seconds; null where none has started."""

    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None


class SizeFields(TypedDict):
    """Jobs of one size."""

    chips: int
    jobs: int
    started: int
    pending_seconds: WaitFields


class CurvePoint(TypedDict):
    """A moment of a run."""

    after_seconds: float
    chips_in_use: int
    pending_jobs: int


class MoveFields(TypedDict):
    """Running jobs that were moved so that others could start: only with the setting `defragment: auto`."""

    plans: int
    failed_plans: Annotated[int, Meta(description="Plans after which the job that waited did not start.")]
    jobs: Annotated[int, Meta(description="Jobs that were moved; one that was moved twice counts twice.")]
    chips: Annotated[int, Meta(description="Their chips.")]
    cost_chip_hours: Annotated[float, Meta(description="Their chips times the cost of a restart.")]


class EstimateFields(TypedDict):
    """When jobs that waited were expected to start, as the scheduler said when they were submitted.

    Of some of them, in equal distances, and only of those that have started.
    """

    jobs: int
    ranges: Annotated[int, Meta(description="Estimates with an earliest and a latest time.")]
    not_before: Annotated[int, Meta(description="Estimates with an earliest time only.")]
    estimated_durations: Annotated[int, Meta(description="Estimates for which durations had to be guessed.")]
    median_error_seconds: Annotated[
        float | None, Meta(description="From the middle of the range to the start; null without ranges.")
    ]
    p90_error_seconds: float | None
    within_range_ratio: Annotated[
        float | None, Meta(description="Of ranges and earliest times, how many the start kept.")
    ]


class RunFields(TypedDict):
    """The results with one configuration or policy, or with the counting bound."""

    name: str
    kind: Annotated[
        Literal["bound", "configuration", "policy"],
        Meta(description="bound: only counts chips, strictly in order."),
    ]
    settings: Annotated[
        dict[str, str], Meta(description="Settings that differ from those of the configuration given.")
    ]
    policy: str | None
    started: Annotated[int, Meta(description="Jobs that have started.")]
    pending_seconds: WaitFields
    mean_over_bound: Annotated[
        float | None,
        Meta(description="The mean wait over that of the bound; null where one is 0 or unknown."),
    ]
    started_before_bound: Annotated[
        int, Meta(description="Jobs that started sooner than in the bound: none where the order is strict.")
    ]
    utilization: Annotated[
        float, Meta(description="Share of the chips in use, until the last job was submitted.")
    ]
    head_blocked_hours: Annotated[
        float,
        Meta(description="How long the first job waited although as many chips as it asks for were free."),
    ]
    idle_chip_hours_while_blocked: Annotated[float, Meta(description="Chips that were free meanwhile.")]
    restarts: Annotated[int, Meta(description="Runs that ended because hardware broke, or to make room.")]
    lost_chip_hours: Annotated[float, Meta(description="What those runs had used.")]
    moves: MoveFields
    estimates: Annotated[EstimateFields | None, Meta(description="null: no job was asked about.")]
    sizes: list[SizeFields]
    curve: list[CurvePoint]


class LeftOutJobs(TypedDict):
    """Jobs that are not simulated."""

    message: str
    jobs: int


class SimulatedCluster(TypedDict):
    board: str
    nodes: int
    chips: int
    leaf_size: int | None
    superpod_size: int | None


class SimulationDocument(TypedDict):
    """The same jobs under several configurations, in virtual time. The first run is the counting bound."""

    schema: Literal["ringwise.io/simulation/v1"]
    title: str
    seed: str
    interrupted: Annotated[bool, Meta(description="Ctrl-C: the last run is not complete.")]
    cluster: SimulatedCluster
    jobs: int
    omitted: list[LeftOutJobs]
    virtual_seconds: Annotated[float, Meta(description="From the first job that is submitted to the last.")]
    load: Annotated[float, Meta(description="Chips that the jobs would use at a time, over all chips.")]
    runs: list[RunFields]
