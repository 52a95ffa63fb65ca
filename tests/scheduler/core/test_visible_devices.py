"""A pod that says itself which chips it sees is not placed, unless a setting allows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.messages.commands import Bind, SetGroupStatus
from ringwise.state.model import VisibleDevices
from tests.scheduler.rig import Rig, configuration

OWN = VisibleDevices("main", "spec.containers[0].env[0].value", '"0-7"')
HIDDEN = replace(OWN, field="spec.containers[0].envFrom[0]", source="a ConfigMap or Secret", certain=False)


def submitted(rig: Rig, chosen: VisibleDevices, *, chips: int = 8, pods: int = 2) -> None:
    rig.submit("train", pods=pods, chips=chips)
    rig.change(f"train-{pods - 1}", visible_devices=chosen)


def reason_of(rig: Rig) -> str | None:
    reason = rig.machine.view.jobs["default/train"].reason
    return reason.code if reason is not None else None


@pytest.mark.parametrize("chips", [8, 0])
def test_the_job_of_such_a_pod_waits_with_its_reason_also_if_it_asks_for_no_chips(chips: int) -> None:
    rig = Rig(nodes=4)
    submitted(rig, OWN, chips=chips)
    rig.submit("other", pods=2, chips=8)
    rig.run()
    assert not rig.places("train")
    assert len(rig.places("other")) == 2
    reason = rig.machine.view.jobs["default/train"].reason
    assert reason is not None
    assert reason.code == "visible-devices-set"
    assert "container main of pod train-1" in reason.message
    assert "spec.containers[0].env[0].value" in reason.message
    assert reason.fixes
    told = [one for one in rig.commands if isinstance(one, SetGroupStatus) and one.key == "default/train"]
    assert [one.reason for one in told if one.reason is not None] == [reason]


@pytest.mark.parametrize(
    ("setting", "chosen", "code"),
    [
        ("allowed", OWN, None),
        ("allowed", HIDDEN, None),
        ("refused", OWN, "visible-devices-set"),
        ("refused", HIDDEN, None),
        ("strict", OWN, "visible-devices-set"),
        ("strict", HIDDEN, "visible-devices-hidden"),
    ],
)
def test_the_setting_decides(setting: str, chosen: VisibleDevices, code: str | None) -> None:
    rig = Rig(nodes=2, visible_devices=setting)
    submitted(rig, chosen)
    rig.run()
    assert reason_of(rig) == code
    assert len(rig.places("train")) == (0 if code else 2)


def test_another_setting_and_a_corrected_pod_count_at_once() -> None:
    rig = Rig(nodes=2)
    submitted(rig, OWN)
    rig.run()
    rig.tell(configuration(visible_devices="allowed"))
    rig.run()
    assert len(rig.places("train")) == 2
    rig = Rig(nodes=2)
    submitted(rig, OWN)
    rig.run()
    rig.change("train-1", visible_devices=None)
    rig.run()
    assert len(rig.places("train")) == 2


def test_a_pod_that_runs_keeps_its_node_and_chips_and_no_node_is_closed() -> None:
    rig = Rig(nodes=3, visible_devices="allowed")
    submitted(rig, OWN)
    rig.run()
    before = rig.places("train")
    rig.tell(configuration(visible_devices="refused"))
    rig.change("train-0", visible_devices=OWN)
    rig.submit("other", chips=8)
    rig.run()
    assert rig.places("train") == before
    assert len(rig.places("other")) == 1
    held = {node for node, _ in before.values()}
    assert rig.nodes_of("other")[0] not in held
    assert reason_of(rig) is None
    # Its replacement is to be placed.
    rig.gone("train-1")
    rig.step()
    bound = len([one for one in rig.commands if isinstance(one, Bind)])
    rig.put(
        replace(
            rig.pods["train-0"],
            uid="again",
            name="train-1",
            node=None,
            holds=(),
            phase="Pending",
            annotations={},
            rank=None,
        )
    )
    rig.run()
    assert len([one for one in rig.commands if isinstance(one, Bind)]) == bound
    assert reason_of(rig) == "visible-devices-set"
    assert rig.places("train") == {"train-0": before["train-0"]}
