"""Core/v1 Events: short notes on objects, for people. Only news, at a bounded rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ringwise.reasons import Reason

COMPONENT = "ringwise"
#: The API server refuses longer messages.
_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Subject:
    """The object a note is about."""

    version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    subject: Subject
    reason: str
    message: str
    warning: bool = False
    #: Makes the event's name where the same is never to be told twice, whoever leads; else its time does.
    mark: str = ""

    def body(self, now: int, number: int) -> Mapping[str, Any]:
        subject = self.subject
        moment = rfc3339(now)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{subject.name[:200].rstrip('-.')}.{self.mark or f'{now:x}{number & 0xFFFF:04x}'}",
                "namespace": subject.namespace or "default",
            },
            "involvedObject": {
                "apiVersion": subject.version,
                "kind": subject.kind,
                "namespace": subject.namespace,
                "name": subject.name,
                "uid": subject.uid,
            },
            "type": "Warning" if self.warning else "Normal",
            "reason": self.reason,
            "message": self.message[:_LONGEST],
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": COMPONENT,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }


def sentence(reason: Reason) -> str:
    """A reason as a person reads it on an object: what is wrong, then what helps."""
    cures = reason.cures
    if not cures:
        return reason.message
    return f"{reason.message}. What helps: {'; '.join(cures)}"


def rfc3339(now: int, *, exact: bool = False) -> str:
    """Kubernetes' Time; with `exact` to the nanosecond, which every reader of that format understands."""
    seconds, rest = divmod(now, 1_000_000_000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:09d}Z" if exact and rest else f"{text}Z"
