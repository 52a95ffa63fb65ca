"""The document of shadow mode: `ringwise report --shadow`."""

from __future__ import annotations

from typing import Annotated, Literal

from ringwise.views.documents.common import Document, Fields, doc

Outcome = Literal["same", "other-chips", "other-node", "only-theirs", "only-ours"]


class ShadowWaitFields(Fields):
    """How long pods waited for a node from their creation."""

    pods: Annotated[int, doc("Pods for which both times are known.")]
    shorter: Annotated[int, doc("Pods for which Ringwise decided at least a second earlier.")]
    longer: Annotated[int, doc("Pods for which Ringwise decided at least a second later.")]
    ours_seconds: Annotated[float, doc("Sum until Ringwise decided.")]
    theirs_seconds: Annotated[float, doc("Sum until the other scheduler's binding was seen.")]


class ShadowDifferenceFields(Fields):
    """Pods with the same difference for the same reason."""

    state: Outcome
    message: str
    pods: int
    example: Annotated[str, doc("Namespace and name of an example.")]


class ShadowReportDocument(Document, tag="ringwise.io/shadow-report/v1"):
    """The decisions that differ in shadow mode, from the log of the scheduler."""

    since: Annotated[str, doc("Time of the first compared pod.")]
    until: Annotated[str, doc("Time of the last compared pod.")]
    pods: int
    outcomes: Annotated[dict[Outcome, int], doc("Pods by outcome.")]
    blocked_jobs: ShadowWaitFields
    split_nodes: Annotated[
        dict[Literal["ours", "theirs"], int],
        doc(
            "Of the pods with different nodes: those whose node had no chip in use and "
            "had free chips left afterwards."
        ),
    ]
    differences: Annotated[list[ShadowDifferenceFields], doc("Most pods first.")]
    unreadable: Annotated[int, doc("Lines of shadow mode that could not be read.")]
