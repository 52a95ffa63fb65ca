"""One job that cannot be handled costs no other; a new leader goes on from whatever it reads (F1)."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import Command, DeletePod
from ringwise.scheduler.faults.handler import FaultHandler
from tests.builders.records import with_entries
from tests.scheduler.rig import Rig

POD_LEVEL = {"fault-scheduling": "force", "pod-rescheduling": "on"}
GRACE = {"fault-scheduling": "grace"}


def deleted(commands: list[Command]) -> list[tuple[str, int | None]]:
    return [(one.pod, one.grace) for one in commands if isinstance(one, DeletePod)]


def jobs(*names: str) -> Rig:
    rig = Rig(8)
    for name in names:
        rig.submit(name, pods=2, chips=8, labels=POD_LEVEL)
    rig.run()
    return rig


def test_F1_a_job_that_raises_costs_no_other_its_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = jobs("a", "b", "c")
    rig.may_fail = True
    detector = rig.machine._components.of(FaultHandler).detector
    look = detector.look

    def failing(pod: Any, *rest: Any) -> Any:
        if pod.group == "b":
            raise KeyError("a defect")
        return look(pod, *rest)

    monkeypatch.setattr(detector, "look", failing)
    for name in "abc":
        rig.sick(rig.node_of(f"{name}-1"), 1)
    assert sorted(deleted(rig.step())) == [("a-1", 0), ("c-1", 0)]
    assert rig.machine.view.contained_objects == [("job", "default/b", "KeyError: 'a defect'")]
    monkeypatch.undo()
    # It is tried again without any event.
    assert deleted(rig.step(10)) == [("b-1", 0)]
    assert rig.machine.view.contained_objects == []


def test_an_error_is_forgotten_with_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = jobs("a", "b")
    rig.may_fail = True

    def failing(*_: Any) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr(rig.machine._components.of(FaultHandler).detector, "look", failing)
    rig.sick(rig.node_of("a-1"), 1)
    rig.step()
    assert [key for _, key, _ in rig.machine.view.contained_objects] == ["default/a"]
    rig.end("a")
    rig.step()
    assert rig.machine.view.contained_objects == []


@pytest.mark.parametrize("state", ["Faulty", "Blocked", "Waiting", "Deleting"])
@pytest.mark.parametrize("planned", [True, False])
def test_F1_every_state_of_a_document_has_a_way_out(state: str, planned: bool) -> None:
    rig = jobs("a")
    rig.deaf = True
    rig.sick(rig.node_of("a-1"), 1)
    rig.step()
    entries = rig.entries("fault-jobs")
    entries["default/a"]["state"] = state
    if not planned:
        entries["default/a"]["deletions"] = {}
    new = jobs("a", "b")
    new.tell(ev.LeaderRecordRead(with_entries(rig.record, "fault-jobs", entries)))
    for pod in list(new.pods.values()):
        new.sick(pod.node or "", 1)
    assert {"a-0", "b-0", "b-1"} <= {name for name, _ in deleted(new.step())}


def test_F1_a_forced_deletion_that_was_lost_between_leaders_is_repeated() -> None:
    rig = Rig(6)
    rig.submit("train", pods=2, chips=8, labels=GRACE)
    rig.run()
    rig.sick("n1", 1)
    rig.step()
    # The old leader ends before the commands of this turn are carried out.
    forced = [("train-0", 0), ("train-1", 0)]
    assert deleted(rig.step(900)) == forced
    new = Rig(6)
    new.now, new.pods, new.groups = rig.now, rig.pods, rig.groups
    new.sick("n1", 1)
    new.tell(*rig.groups.values(), *rig.pods.values())
    new.tell(rig.last_record)
    assert deleted(new.step()) == forced
    assert deleted(new.step(1)) == []
