"""What may be changed: one struct for each kind of change, for commands, the API of a lab, and clusters."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ringwise.views.documents.reservations import ReservationFields

#: A century in nanoseconds.
MAX_TIME = 100 * 366 * 86400 * 1_000_000_000
Time = Annotated[int, msgspec.Meta(ge=0, lt=MAX_TIME)]


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    """Unknown fields are rejected: `clear` with a misspelled `kind` would clear everything."""


class NodeRequest(_Request):
    node: str


class IsolateRequest(_Request):
    target: str
    chips: list[str] = []
    by: str = ""
    reason: str = ""
    at: str | None = None


class ReserveRequest(_Request):
    reservation: ReservationFields


class UnreserveRequest(_Request):
    name: str


class JobRequest(_Request):
    """Suspend, resume or requeue a job, and change its queue or priority class."""

    job: str
    by: str
    namespace: str | None = None
    reason: str | None = None
    queue: str | None = None
    priority: str | None = None
    #: For a cluster: look for the job in all of them, and how long to wait for its controller.
    all_namespaces: bool = False
    timeout: Time = 0


class DeleteRequest(_Request):
    #: Pairs of kind and name.
    objects: list[tuple[str, str]] = []
    #: A kind of which all objects are deleted.
    all: str | None = None
    namespace: str | None = None
    ignore_not_found: bool = False
    dry_run: bool = False


class FaultRequest(_Request):
    #: None: all faults of all kinds (`clear`).
    kind: str | None = None
    target: str = ""
    chips: list[int] = []
    level: str | None = None
    code: str | None = None
    status: str | None = None


class DrainRequest(_Request):
    target: str
    #: None: all jobs.
    job: str | None = None


class SettleRequest(_Request):
    target: str
    job: str
    until: Time = 0


class MoveRequest(_Request):
    """A MovePlan object."""

    plan: dict[str, Any]


class FollowRequest(_Request):
    """The name of a MovePlan."""

    name: str
    until: Time = 0


class PassRequest(_Request):
    until: Time


class WaitRequest(_Request):
    jobs: list[str]
    until: Time


class AdvanceRequest(_Request):
    #: None: until the next event.
    nanoseconds: Time | None = None
