"""The documents of `why`, `capacity` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ringwise.scheduler.explain.capacity import BoardCapacity
from ringwise.scheduler.explain.doctor import Diagnosis
from ringwise.scheduler.explain.why import Explanation
from ringwise.views.times import time_text


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    document = explanation.as_json()
    if explanation.expected is not None:
        document["expected_start"]["time"] = time_text(explanation.expected.starts)
    return document


def capacity_document(counted: Iterable[BoardCapacity]) -> dict[str, Any]:
    return {"boards": [board.as_json() for board in counted]}


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    return diagnosis.as_json()
