"""The document of accounting: `ringwise report`."""

from __future__ import annotations

from typing import Annotated, Literal

from ringwise.views.documents.common import Document, Fields, Nanoseconds, doc

GroupBy = Literal["queue", "namespace", "user", "job", "board"]


class _AmountFields(Fields, kw_only=True):
    """The amounts of rows and totals. They are keyword-only to follow the other fields of subclasses."""

    allocated_chip_hours: Annotated[
        float, doc("Chips times hours, from the placement of pods until their end.")
    ]
    uncertain_chip_hours: Annotated[
        float, doc("Part of allocated_chip_hours: the end of these pods was not observed.")
    ]
    lost_chip_hours: Annotated[dict[str, float], doc("Lost work, by cause: fault, move, drain, preempt, ...")]
    pending_hours: Annotated[float, doc("Hours in which jobs were pending.")]
    uncertain_pending_hours: Annotated[float, doc("Part of pending_hours: the end was not observed.")]
    starts: Annotated[int, doc("Number of job starts.")]
    failures: Annotated[int, doc("Number of jobs that failed on their own after they started.")]
    clamped: Annotated[int, doc("Intervals with inconsistent times.")]


class _NamedAmountFields(_AmountFields):
    """The group of a row before its amounts."""

    queue: Annotated[str | None, doc("null if rows are not grouped by queue.")]
    namespace: Annotated[str | None, doc("Set if rows are grouped by namespace or job.")]
    user: Annotated[str | None, doc("Set if rows are grouped by user or job; empty: unknown.")]
    verified: Annotated[bool | None, doc("False if the user is from a label.")]
    job: Annotated[str | None, doc("Set if rows are grouped by job; empty: merged jobs of the namespace.")]
    uid: Annotated[str | None, doc("UID of the job object, if rows are grouped by job.")]
    board: Annotated[
        str,
        doc(
            "Chips of different boards are never added. Empty: jobs that had no node; where "
            "all others are of one board, that one."
        ),
    ]


class ReportRowFields(_NamedAmountFields, kw_only=True):
    """The sum of one queue, namespace, user or job for one board."""

    allocated_by_day: Annotated[list[float], doc("allocated_chip_hours of each day of `days`.")]


class BoardTotalFields(_AmountFields):
    """The sum of all rows of one board."""

    board: Annotated[str, doc("As that of rows.")]


class GapFields(Fields):
    """A span in which no scheduler wrote: pods that came and went in it are not known."""

    since: Nanoseconds
    until: Nanoseconds


class ReportDocument(Document, tag="ringwise.io/report/v1"):
    """Chip-hours, pending times, starts and failures, for whole UTC days."""

    now: Annotated[Nanoseconds, doc("End of the recorded time.")]
    group_by: GroupBy
    days: Annotated[list[str], doc("The UTC days of the report, in order.")]
    notes: Annotated[list[str], doc("Why it covers more than was requested.")]
    rows: Annotated[list[ReportRowFields], doc("Most chip-hours first.")]
    totals: Annotated[list[BoardTotalFields], doc("One for each board, most chip-hours first.")]
    has_chip_fractions: Annotated[
        bool, doc("Whether soft shares or vNPUs are included: tables show two decimals.")
    ]
    gaps: list[GapFields]
    merged_jobs: Annotated[int, doc("Jobs that were merged into rows of their namespace.")]
    discarded_before: Annotated[
        str | None, doc("Documents of days before this one were discarded for lack of space.")
    ]
    unreadable: Annotated[list[str], doc("ConfigMaps or files that cannot be read, and why.")]


class IdleFields(Fields):
    """A job with allocated chips."""

    namespace: str
    name: str
    queue: str
    user: Annotated[str, doc("Empty: not known.")]
    verified: Annotated[bool, doc("False if the user is from a label.")]
    chips: Annotated[int, doc("Chips that its pods use.")]
    idle_chips: Annotated[int, doc("Those with low utilization.")]
    unknown_chips: Annotated[int, doc("Those without sufficient utilization metrics.")]
    utilization_percent: Annotated[
        float | None, doc("Mean utilization of the AI cores of the others; null: unknown.")
    ]


class IdleDocument(Document, tag="ringwise.io/idle/v1"):
    """Allocated chips with low utilization, as reported by the device plugins."""

    now: Nanoseconds
    threshold_percent: Annotated[float, doc("A chip with a lower mean utilization is idle.")]
    min_measured_seconds: Annotated[int, doc("Minimum number of measured seconds of a mean.")]
    chips: Annotated[int, doc("Chips that jobs use.")]
    idle_chips: int
    unknown_chips: int
    jobs: Annotated[list[IdleFields], doc("Most idle chips first.")]
