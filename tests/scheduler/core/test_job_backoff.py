"""JobBackoff of bindings that the API server refuses."""

from __future__ import annotations

from dataclasses import replace

from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.scheduler.core.job_backoff import AFTER_BINDING, AT_ONCE
from tests.builders.values import CHIP, SECOND
from tests.scheduler.rig import PLAIN, Rig, bound_pods


def refuse(rig: Rig, pod: str) -> None:
    rig.tell(ev.BindFailed(rig.pods[pod].uid, "a webhook says no"))


def refused(times: int) -> Rig:
    rig = Rig(1, actions=PLAIN, deaf=True)
    rig.submit("bad", chips=1)
    assert bound_pods(rig.step()) == ["bad-0"]
    for _ in range(times - 1):
        refuse(rig, "bad-0")
        assert bound_pods(rig.step()) == ["bad-0"]
    refuse(rig, "bad-0")
    return rig


def test_the_first_failures_are_retried_at_once() -> None:
    assert bound_pods(refused(AT_ONCE).step()) == ["bad-0"]


def test_then_the_job_is_in_backoff_with_a_reason_whatever_else_happens() -> None:
    rig = refused(AT_ONCE + 1)
    assert bound_pods(rig.step()) == []
    assert rig.machine.next_deadline() == rig.now + SECOND
    reason = rig.machine.view.jobs["default/bad"].reason
    assert reason is not None
    assert "a webhook says no" in reason.message
    assert reason.message.endswith("next attempt in 1s")
    rig.node("n2")
    rig.submit("good", chips=1)
    assert bound_pods(rig.step(0.5)) == ["good-0"]
    assert rig.reason("bad") == "bind-failed"
    assert bound_pods(rig.step(0.5)) == ["bad-0"]
    assert rig.machine.view.inconsistencies() == []


def test_no_backoff_is_longer_than_the_limit_and_success_ends_it() -> None:
    rig = refused(AT_ONCE + 1)
    for failures in range(1, 12):
        rig.step()
        pause = (rig.machine.next_deadline() or 0) - rig.now
        assert pause == min(2 ** (failures - 1), AFTER_BINDING.limit) * SECOND
        found = [command for command in rig.step(pause / SECOND) if isinstance(command, Bind)]
        assert len(found) == 1
        refuse(rig, "bad-0")
    rig.step()
    bind = next(command for command in rig.step(AFTER_BINDING.limit) if isinstance(command, Bind))
    rig.change(bind.pod, node=bind.node, holds=bind.chips, annotations=bind.annotations)
    rig.step()
    assert rig.machine.next_deadline() is None


def test_the_backoff_of_a_deleted_job_is_forgotten() -> None:
    rig = refused(AT_ONCE + 1)
    rig.step()
    rig.end("bad")
    rig.step()
    assert rig.machine.next_deadline() is None


def test_a_binding_that_succeeded_after_all_ends_the_backoff() -> None:
    rig = refused(AT_ONCE + 1)
    rig.step()
    rig.change("bad-0", node="n1", holds=(0,), annotations={CHIP: "Ascend910-0"})
    rig.step(0.1)
    assert rig.machine.view.jobs["default/bad"].waiting_since is None


def test_another_reason_that_is_fixed_during_the_backoff_is_not_reported_any_more() -> None:
    rig = refused(AT_ONCE + 1)
    rig.step()
    group = rig.groups["default/bad"]
    rig.tell(replace(group, queue="nowhere"))
    rig.step(0.1)
    assert rig.reason("bad") == "unknown-queue"
    rig.tell(group)
    assert bound_pods(rig.step(0.1)) == ["bad-0"]
    assert rig.reason("bad") is None
