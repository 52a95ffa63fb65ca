"""The document of accounting: `ringwise report`."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from ringwise.views.documents.common import Nanoseconds

GroupBy = Literal["queue", "namespace", "user", "job", "board"]


class AmountFields(TypedDict):
    """Allocated and lost chip-hours, and pending times."""

    allocated_chip_hours: Annotated[
        float, Meta(description="Chips times hours, from when pods got their nodes until their ends.")
    ]
    uncertain_chip_hours: Annotated[
        float,
        Meta(description="Of allocated_chip_hours: the end of these pods was not observed."),
    ]
    lost_chip_hours: Annotated[
        dict[str, float], Meta(description="Work that was lost, by cause: fault, move, drain, preempt, ...")
    ]
    pending_hours: Annotated[float, Meta(description="Hours in which jobs had no node and waited for one.")]
    uncertain_pending_hours: Annotated[
        float, Meta(description="Of pending_hours: their end was not observed.")
    ]
    starts: Annotated[int, Meta(description="How often a job without a node got some.")]
    failures: Annotated[int, Meta(description="How often a job failed by itself after a start.")]
    clamped: Annotated[int, Meta(description="Intervals whose times could not be right.")]


class ReportRowFields(AmountFields):
    """The sum of one queue, namespace, user or job for one board."""

    queue: Annotated[str | None, Meta(description="null where rows are not by queue.")]
    namespace: Annotated[str | None, Meta(description="Of rows by namespace or job.")]
    user: Annotated[str | None, Meta(description="Of rows by user or job; empty: not known.")]
    verified: Annotated[
        bool | None, Meta(description="Whether admission wrote the user; else a label says so.")
    ]
    job: Annotated[
        str | None, Meta(description="Of rows by job; empty: jobs of the namespace that were merged.")
    ]
    uid: Annotated[str | None, Meta(description="Of the job's object, of rows by job.")]
    board: Annotated[
        str,
        Meta(
            description="Chips of different boards are never added. Empty: jobs that had no node; where "
            "all others are of one board, that one."
        ),
    ]
    allocated_by_day: Annotated[list[float], Meta(description="allocated_chip_hours of each day of `days`.")]


class BoardTotalFields(AmountFields):
    """The sum of all rows of one board."""

    board: Annotated[str, Meta(description="As that of rows.")]


class GapFields(TypedDict):
    """A span in which no scheduler wrote: pods that came and went in it are not known."""

    since: Nanoseconds
    until: Nanoseconds


class ReportDocument(TypedDict):
    """Chip-hours, pending times, starts and failures, for whole UTC days."""

    schema: Literal["ringwise.io/report/v1"]
    now: Annotated[Nanoseconds, Meta(description="Until when the documents tell.")]
    group_by: GroupBy
    days: Annotated[list[str], Meta(description="The UTC days that it is about, in order.")]
    notes: Annotated[list[str], Meta(description="Where it covers more than was asked for.")]
    rows: Annotated[list[ReportRowFields], Meta(description="Most chip-hours first.")]
    totals: Annotated[list[BoardTotalFields], Meta(description="One for each board, most chip-hours first.")]
    has_chip_fractions: Annotated[
        bool, Meta(description="Whether soft shares or vNPUs are included: tables show two decimals.")
    ]
    gaps: list[GapFields]
    merged_jobs: Annotated[int, Meta(description="Jobs that are merged into rows of their namespace.")]
    discarded_before: Annotated[
        str | None, Meta(description="Documents of days before this one were discarded for lack of space.")
    ]
    unreadable: Annotated[list[str], Meta(description="ConfigMaps or files that cannot be read, and why.")]


class IdleFields(TypedDict):
    """A job with allocated chips."""

    namespace: str
    name: str
    queue: str
    user: Annotated[str, Meta(description="Empty: not known.")]
    verified: Annotated[bool, Meta(description="Whether admission wrote the user; else a label says so.")]
    chips: Annotated[int, Meta(description="That its pods hold.")]
    idle_chips: Annotated[int, Meta(description="Of them those that were hardly used.")]
    unknown_chips: Annotated[
        int,
        Meta(description="Of them those without utilization metrics, or not for long enough."),
    ]
    utilization_percent: Annotated[
        float | None, Meta(description="Mean use of the AI cores of the others; null: nothing is known.")
    ]


class IdleDocument(TypedDict):
    """Allocated chips with low utilization, as reported by the device plugins."""

    schema: Literal["ringwise.io/idle/v1"]
    now: Nanoseconds
    threshold_percent: Annotated[float, Meta(description="A chip whose mean use is below is idle.")]
    min_measured_seconds: Annotated[int, Meta(description="Seconds that a mean must be about at least.")]
    chips: Annotated[int, Meta(description="That jobs hold.")]
    idle_chips: int
    unknown_chips: int
    jobs: Annotated[list[IdleFields], Meta(description="Most idle chips first.")]
