"""What processes are told by `reset-config-<job>` while their job is rescheduled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ringwise.messages.commands import Command, DeletePod, SetResetConfig
from ringwise.state.model import Owner
from tests.scheduler.faults.fault_rig import POD_LEVEL, running, sick_chip, state_of, sub_healthy
from tests.scheduler.rig import Rig


def resets(commands: list[Command]) -> list[SetResetConfig]:
    return [one for one in commands if isinstance(one, SetResetConfig)]


def told_at_the_end(rig: Rig) -> SetResetConfig:
    rig.finish()
    rig.run()
    assert state_of(rig) is None
    return resets(rig.commands)[-1]


GRACE_EXIT = POD_LEVEL | {"subHealthyStrategy": "graceExit"}


VCJOB = Owner("Job", "llama", "u1")


def test_processes_are_told_to_exit_before_their_pods_are_deleted_and_to_go_on_afterwards() -> None:
    rig = running(GRACE_EXIT, owner=VCJOB)
    sub_healthy(rig, "n3")
    commands = rig.step()
    (told,) = resets(commands)
    assert told == SetResetConfig("default", "llama", graceful_exit=True)
    (deleted,) = [one for one in commands if isinstance(one, DeletePod)]
    assert commands.index(told) < commands.index(deleted)
    assert deleted.grace is None
    over = told_at_the_end(rig)
    assert (over.job, over.graceful_exit, over.whole_job_restarted) == ("llama", False, False)


def test_F1_processes_are_told_to_go_on_by_the_next_leader() -> None:
    rig = running(GRACE_EXIT)
    sub_healthy(rig, "n3")
    rig.step()
    other = rig.successor()
    other.step()
    over = told_at_the_end(other)
    assert over.graceful_exit is False


@pytest.mark.parametrize(
    ("labels", "fault", "told"),
    [
        (GRACE_EXIT | {"process-recover-enable": "on"}, sub_healthy, [None]),
        (GRACE_EXIT, sick_chip, [None]),
        (POD_LEVEL | {"subHealthyStrategy": "forceExit"}, sub_healthy, [None]),
        ({"fault-scheduling": "grace", "subHealthyStrategy": "graceExit"}, sub_healthy, [True, False]),
        ({"fault-scheduling": "grace"}, sick_chip, []),
        (POD_LEVEL, sick_chip, [None]),
    ],
)
def test_who_is_told_to_exit(
    labels: dict[str, str], fault: Callable[[Rig, str], None], told: list[bool | None]
) -> None:
    rig = running(labels)
    fault(rig, "n3")
    rig.step()
    rig.finish()
    rig.run()
    assert state_of(rig) is None
    assert [one.graceful_exit for one in resets(rig.commands)] == told


def test_after_a_restart_of_the_whole_job_the_count_of_retries_begins_again() -> None:
    rig = running(POD_LEVEL)
    sick_chip(rig, rig.node_of("train-0"))
    rig.step()
    over = told_at_the_end(rig)
    assert over.whole_job_restarted is True
