"""MovePlans as they are on the wire."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from ringwise.manifests.objects.custom_resources import CustomResourceWire
from ringwise.manifests.objects.move_plans import move_plan_body, move_plan_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.messages.move_plan import DONE, FAILED, REFUSED, RUNNING, WAITING, MovePlan
from ringwise.wellknown import APPROVED_BY, USER
from tests.checkout import ROOT

EXAMPLE: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "defrag" / "plan.yaml").read_text())


def read(body: dict[str, Any]) -> tuple[MovePlan, list[str]]:
    found = Findings("MovePlan")
    plan = move_plan_from_wire(msgspec.convert(body, CustomResourceWire), found)
    return plan, [error.field for error in found.errors]


def changed(path: str, value: Any) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(yaml.safe_dump(EXAMPLE))
    place: Any = body["spec"]
    *parts, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parts:
        place = place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return body


def test_a_plan_that_is_written_is_read_again() -> None:
    plan, problems = read(EXAMPLE)
    assert (problems, move_plan_body(plan)) == ([], EXAMPLE)
    assert plan.job.startswith("research/train-")
    assert (plan.moved_chips, plan.approval, plan.cost) == (1, "Pending", 600 * 10**9)
    lone = changed("targetRef.kind", "Pod")
    plan, _ = read(lone)
    assert plan.job.startswith("research/pod:train-")
    assert move_plan_body(plan) == lone


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("targetRef", None, "spec.targetRef"),
        ("targetRef.uid", None, "spec.targetRef.uid"),
        ("targetRef.kind", "Job", "spec.targetRef.kind"),
        ("moves", [], "spec.moves"),
        ("moves", [EXAMPLE["spec"]["moves"][0]] * 257, "spec.moves"),
        ("moves.0.pods", [EXAMPLE["spec"]["moves"][0]["pods"][0]] * 1025, "spec.moves[0].pods"),
        ("moves.0.pods.0.uid", None, "spec.moves[0].pods[0].uid"),
        ("moves.0.pods.0.uid", "u" * 600, "spec"),
        ("moves.0.pods.0.to", None, "spec.moves[0].pods[0].to"),
        ("moves.0.pods.0.to.chips", [1, 1], "spec"),
        ("moves.0.pods.0.from.chips", [3600], "spec"),
        ("moves.0.costChipSeconds", -1, "spec"),
        ("savingChipSeconds", 1 << 90, "spec"),
        ("ttlSecondsAfterFinished", -1, "spec.ttlSecondsAfterFinished"),
        ("ttlSecondsAfterFinished", 315_360_001, "spec.ttlSecondsAfterFinished"),
        ("approval", "Yes", "spec.approval"),
        ("force", True, "spec.force"),
    ],
)
def test_the_rules_of_the_schema_are_enforced(path: str, value: Any, field: str) -> None:
    assert read(changed(path, value))[1] == [field]


@pytest.mark.parametrize(
    ("true", "reason", "state", "finished"),
    [
        ("Complete", "TargetStarted", DONE, True),
        ("Failed", "StepFailed", FAILED, True),
        ("Failed", "NotCarriedOut", REFUSED, True),
        ("Progressing", "Moving", RUNNING, False),
        ("", "Waiting", WAITING, False),
    ],
)
def test_users_and_state_are_read(true: str, reason: str, state: str, finished: bool) -> None:
    conditions = [
        {
            "type": name,
            "status": "True" if name == true else "False",
            "reason": reason,
            "message": f"of {name}",
            "lastTransitionTime": "2026-01-31T08:00:00Z",
        }
        for name in ("Accepted", "Progressing", "Complete", "Failed")
    ]
    notes = {USER: "ann", APPROVED_BY: "bob"}
    meta = {"name": "p", "uid": "u", "generation": 3, "annotations": notes}
    plan, _ = read({**EXAMPLE, "metadata": meta, "status": {"conditions": conditions}})
    assert (plan.by, plan.approved_by, plan.uid, plan.generation) == ("ann", "bob", "u", 3)
    assert (plan.state, plan.why) == (state, f"of {true or 'Progressing'}")
    assert (plan.finished > 0) is finished
