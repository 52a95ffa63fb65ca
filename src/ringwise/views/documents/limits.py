"""The document of limits and their use."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from ringwise.views.documents.common import Nanoseconds


class LimitUseFields(TypedDict):
    """What is used of one limit."""

    used: int | float
    limit: Annotated[int | None, Meta(description="None: unlimited.")]


class LimitFields(TypedDict):
    """The limits of a namespace, of a queue, or of a user of a queue, and what is used of them."""

    of: Literal["namespace", "queue", "user"]
    name: Annotated[str, Meta(description="Of the namespace, or of the queue.")]
    user: str | None
    chips: LimitUseFields
    burst: Annotated[int, Meta(description="Chips beyond the limit that may be lent.")]
    lent: Annotated[int | float, Meta(description="Chips beyond the limit that are in use.")]
    running: LimitUseFields
    waiting: LimitUseFields
    waits: Annotated[int, Meta(description="Jobs that wait for one of these limits.")]


class RunTimeFields(TypedDict):
    """The longest run time of a queue."""

    queue: str
    seconds: int
    on_timeout: Literal["end", "requeue"]
    next_end: Annotated[Nanoseconds | None, Meta(description="When the first of its jobs is ended.")]


class LimitsDocument(TypedDict):
    """Limits of namespaces, queues and users of a queue, with their use."""

    schema: Literal["ringwise.io/limits/v1"]
    now: Nanoseconds
    limits: list[LimitFields]
    max_run_times: list[RunTimeFields]
    problems: Annotated[list[str], Meta(description="What is set and does not hold, and why.")]
