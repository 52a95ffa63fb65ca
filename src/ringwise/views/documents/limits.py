"""The document of limits and their use."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from ringwise.views.documents.common import Amounts, Document, Fields, More, Nanoseconds, doc


class LimitUseFields(Fields):
    """The usage of one entry of `hard`."""

    name: Annotated[str, doc("A resource, runningJobs or pendingJobs; cpu in thousandths.")]
    used: int | float
    hard: int
    borrowing_limit: Annotated[int, doc("Borrowing limit.")]
    borrowed: Annotated[int | float, doc("Borrowed amount.")]


class LimitFields(Fields):
    """A UsageLimit and what one subject of it uses: with `*`, each has a row."""

    name: str
    namespace: str | None
    queue: str | None
    user: str | None
    use: list[LimitUseFields]
    blocked_jobs: Annotated[int, doc("Jobs that are pending because of it.")]


class UsageLimitFields(TypedDict):
    """A UsageLimit that is accepted."""

    name: str
    namespace: str | None
    queue: str | None
    user: str | None
    hard: Amounts
    borrowing_limit: Amounts
    max_run_time_seconds: int | None
    on_timeout: str


class UsageLimitsDocument(TypedDict):
    """All UsageLimits that are accepted."""

    schema: Literal["ringwise.io/usagelimits/v1"]
    usagelimits: list[UsageLimitFields]
    problems: Annotated[list[str], doc("UsageLimits that were not accepted, and why.")]
    remaining_item_count: NotRequired[More]


class RunTimeFields(Fields):
    """The maximum run time of a UsageLimit."""

    name: str
    namespace: str | None
    queue: str | None
    user: str | None
    max_run_time_seconds: int
    on_timeout: str
    next_end: Annotated[Nanoseconds | None, doc("When the max run time of its first job ends.")]


class LimitsDocument(Document, tag="ringwise.io/limits/v1"):
    """UsageLimits with their usage."""

    now: Nanoseconds
    limits: list[LimitFields]
    max_run_times: list[RunTimeFields]
    problems: Annotated[list[str], doc("Limits without effect, and why.")]
