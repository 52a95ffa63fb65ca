"""The documents of `why`, `capacity` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ringwise.scheduler.explain.capacity import BoardCapacity, JobShape
from ringwise.scheduler.explain.doctor import Diagnosis
from ringwise.scheduler.explain.findings import NOTE, WARNING
from ringwise.scheduler.explain.why import Explanation, PodLocation
from ringwise.views.times import time_text


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """What `ringwise why -o json` prints."""
    job, refusals, expected = explanation.job, explanation.refusals, explanation.expected
    return {
        "namespace": job.namespace,
        "name": job.name,
        "class": job.policy.switch_class if job.policy is not None else None,
        "board": job.policy.board.name if job.policy is not None else None,
        "board_reason": explanation.board,
        "outcome": explanation.outcome,
        "sentence": explanation.sentence,
        "reason": None if explanation.reason is None else explanation.reason.as_json(),
        "refusals": None if refusals is None else refusals.counts,
        "fitting_nodes": None if refusals is None else refusals.fits,
        "near_misses": [
            {
                "node": miss.node,
                "missing_chips": miss.missing,
                "text": miss.text,
                "code": miss.reason.code,
            }
            for miss in explanation.misses
        ],
        "queue": {
            "name": job.queue,
            "position": explanation.position,
            "waiting": explanation.waiting,
            "ahead": list(explanation.ahead),
        },
        "kept_chips": explanation.kept,
        "expected_start": None
        if expected is None
        else {
            "starts": expected.starts,
            "after": list(expected.after),
            "time": time_text(expected.starts),
        },
        "cures": [
            {"kind": cure.kind, "text": cure.text, "contested_by": cure.contested}
            for cure in explanation.cures
        ],
        "pods": [_location(location) for location in explanation.locations],
        "plan": list(explanation.plan),
    }


def _location(location: PodLocation) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": location.pod,
        "rank": location.rank,
        "node": location.node,
        "chips": list(location.chips),
        "switch": location.switch,
        "superpod": location.superpod,
        "block": location.block,
    }
    if location.rack is not None:
        document["rack"] = location.rack
    return document


def capacity_document(counted: Iterable[BoardCapacity]) -> dict[str, Any]:
    """What `ringwise capacity -o json` prints."""
    return {
        "boards": [
            {
                "board": board.board,
                "resource": board.resource,
                "accelerator_type": board.selector or None,
                "chips": asdict(board.chips),
                "largest_gang": board.largest_gang,
                "shapes": [_shape(shape) for shape in board.shapes],
            }
            for board in counted
        ]
    }


def _shape(shape: JobShape) -> dict[str, Any]:
    return {
        "form": shape.form,
        "kind": shape.kind,
        "chips_per_pod": shape.chips,
        "pods": shape.pods,
        "jobs": shape.jobs,
        "upper_bound": shape.most,
        "stranded_chips": shape.stranded,
    }


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """What `ringwise doctor -o json` prints."""
    return {
        "nodes": diagnosis.nodes,
        "jobs": diagnosis.jobs,
        "errors": diagnosis.errors,
        "warnings": diagnosis.count(WARNING),
        "notes": diagnosis.count(NOTE),
        "findings": [asdict(finding) for finding in diagnosis.findings],
    }
