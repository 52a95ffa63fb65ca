"""Policies of a PodGroup that cost too much to apply: the job is refused with what to do, and others run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.framework import sub_groups
from ringwise.state.model import Requirement, SubGroupPolicy
from ringwise.topology.natural import natural_key
from tests.scheduler.rig import Rig


def test_policies_that_cost_too_much_refuse_their_job_only() -> None:
    rig = Rig(2)
    rig.submit("costly", pods=150, chips=8)
    rig.submit("other", pods=1, chips=8)
    policies = tuple(
        SubGroupPolicy(f"s{number}", (Requirement("missing", "Exists"), Requirement("number", "Exists")))
        for number in range(1_000)
    )
    group = replace(rig.groups["default/costly"], sub_groups=policies)
    rig.put_group(group)
    for number in range(150):
        rig.change(f"costly-{number}", labels={"number": str(number)})
    rig.run()
    assert len(rig.nodes_of("other")) == 1
    assert rig.nodes_of("costly") == []
    reason = rig.machine.view.jobs["default/costly"].reason
    assert reason is not None
    assert reason.code == "invalid-job"
    assert "spec.subGroupPolicy of its PodGroup costs too much" in reason.message
    # It is repaired.
    rig.tell(replace(group, sub_groups=(), min_member=1))
    rig.run()
    assert len(rig.nodes_of("costly")) == 1


def test_sub_groups_are_brought_into_order_once_in_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond the gang follow one at a time, and there may be thousands of them."""
    compared: list[str] = []

    def counted(name: str) -> object:
        compared.append(name)
        return natural_key(name)

    monkeypatch.setattr(sub_groups, "natural_key", counted)
    rig = Rig(40)
    rig.submit("train", pods=40, chips=8, min_available=1)
    group = replace(rig.groups["default/train"], sub_groups=(SubGroupPolicy("s", None, ("part",)),))
    rig.put_group(group)
    for number in range(40):
        rig.change(f"train-{number}", labels={"part": f"p{number}"})
    rig.step()
    assert len(rig.nodes_of("train")) == 40
    assert len(compared) <= 2 * 40
