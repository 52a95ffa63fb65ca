"""Labels and annotations about faults: their ranges, and one note for each bad value."""

from __future__ import annotations

import pytest

from ringwise.placement.racks.levels import Level, LevelTimes
from ringwise.scheduler.faults.policy import (
    FaultMasks,
    FaultPolicy,
    Mode,
    ProcessRecovery,
    SubHealth,
    read_fault_policy,
    read_masks,
)
from ringwise.scheduler.faults.scope import (
    LostParts,
    Position,
    effective_level,
    is_in_scope,
    level_now,
    next_level,
)

ON = {"fault-scheduling": "force"}
TIMES = LevelTimes(3, 6, 12)
POD_LEVEL = FaultPolicy(mode=Mode.FORCE, pod_level=True)
WHOLE = FaultPolicy(mode=Mode.FORCE)


def test_without_the_label_nothing_is_read() -> None:
    assert read_fault_policy({"fault-retry-times": "many"}, {}) == FaultPolicy()


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_has_its_spelling(mode: Mode) -> None:
    policy = read_fault_policy({"fault-scheduling": mode.value}, {})
    assert (policy.mode, policy.notes) == (mode, ())
    assert policy.mode.external == mode.value.startswith("external")


@pytest.mark.parametrize(
    ("labels", "annotations", "changed"),
    [
        ({"pod-rescheduling": "on"}, {}, {"pod_level": True}),
        ({"pod-rescheduling": "off"}, {}, {}),
        ({"fault-retry-times": "0"}, {}, {"retries": 0}),
        ({"fault-retry-times": "100"}, {}, {"retries": 100}),
        ({"subHealthyStrategy": "graceExit"}, {}, {"sub_health": SubHealth.GRACE_EXIT}),
        ({"subHealthyStrategy": "hotSwitch"}, {}, {"sub_health": SubHealth.HOT_SWITCH}),
        ({"process-recover-enable": "on"}, {}, {"process_recovery": ProcessRecovery.ON}),
        ({"process-recover-enable": "pause"}, {}, {"process_recovery": ProcessRecovery.PAUSE}),
        ({}, {"huawei.com/recover_policy_path": "pod"}, {"only_pods": True}),
        ({}, {"huawei.com/recover_policy_path": "pod,job"}, {"only_pods": False}),
        ({"app": "mindie-ms-controller"}, {}, {"only_pods": True}),
        ({"ome.io/inferenceservice": ""}, {}, {"only_pods": True}),
        ({}, {"ProcessRecoverStrategy": "x"}, {"handled_elsewhere": True}),
    ],
)
def test_values(labels: dict[str, str], annotations: dict[str, str], changed: dict[str, object]) -> None:
    policy = read_fault_policy(ON | labels, annotations)
    assert policy.notes == ()
    for name, value in changed.items():
        assert getattr(policy, name) == value
    if not changed:
        assert policy == FaultPolicy(mode=Mode.FORCE)


@pytest.mark.parametrize(
    ("labels", "annotations", "named"),
    [
        ({"fault-scheduling": "Force"}, {}, "fault-scheduling"),
        ({"pod-rescheduling": "true"}, {}, "pod-rescheduling"),
        ({"fault-retry-times": "101"}, {}, "fault-retry-times"),
        ({"fault-retry-times": "-1"}, {}, "fault-retry-times"),
        ({"fault-retry-times": "9" * 5000}, {}, "fault-retry-times"),
        ({"subHealthyStrategy": "graceexit"}, {}, "subHealthyStrategy"),
        ({"process-recover-enable": "yes"}, {}, "process-recover-enable"),
        ({}, {"huawei.com/recover_policy_path": "node"}, "huawei.com/recover_policy_path"),
        ({}, {"huawei.com/schedule.filter.faultCode": "a:86401,b:-1,c"}, "schedule.filter.faultCode"),
        ({}, {"huawei.com/schedule.filter.faultLevel": ":60"}, "schedule.filter.faultLevel"),
        (
            {},
            {"huawei.com/schedule.filter.faultLevel": "RestartRequest;SeparateNPU"},
            'ManuallySeparateNPU), got "RestartRequest;SeparateNPU"',
        ),
    ],
)
def test_a_bad_value_counts_as_absent_with_one_note(
    labels: dict[str, str], annotations: dict[str, str], named: str
) -> None:
    policy = read_fault_policy(ON | labels, annotations)
    (note,) = policy.notes
    assert named in note
    assert "got" in note
    assert len(note) < 400


def test_what_needs_clusterd_acts_as_pod_level_without_it() -> None:
    labels = ON | {"process-recover-enable": "on", "subHealthyStrategy": "hotSwitch"}
    policy = read_fault_policy(labels, {}, clusterd=False)
    assert policy.pod_level
    assert policy.process_recovery is ProcessRecovery.OFF
    assert policy.sub_health is SubHealth.FORCE_EXIT
    assert len(policy.notes) == 2


def test_masks_have_a_default_window_and_ignore_case_and_blanks() -> None:
    notes: list[str] = []
    masks = read_masks(" 80E01801 , 81078603:0,", "RestartRequest:86400", notes)
    assert notes == []
    assert masks == FaultMasks({"80e01801": 60, "81078603": 0}, {"restartrequest": 86400})
    assert masks.window("80e01801", "SeparateNPU") == 60


def test_a_code_beats_a_level() -> None:
    masks = FaultMasks({"1": 0}, {"restartrequest": 100})
    assert masks.window("1", "RestartRequest") == 0
    assert masks.window("2", "RestartRequest") == 100
    assert masks.window("2", "SeparateNPU") == 0


@pytest.mark.parametrize(
    ("policy", "seconds", "blocks", "racks", "level"),
    [
        (WHOLE, 0, True, True, Level.JOB),
        (POD_LEVEL, 0, True, True, Level.POD),
        (POD_LEVEL, 3, True, True, Level.RACK),
        (POD_LEVEL, 3, True, False, Level.POD),
        (POD_LEVEL, 6, True, True, Level.BLOCK),
        (POD_LEVEL, 6, False, False, Level.POD),
        (POD_LEVEL, 12, False, False, Level.JOB),
        (FaultPolicy(only_pods=True, pod_level=True), 99, True, True, Level.POD),
        (FaultPolicy(process_recovery=ProcessRecovery.ON), 99, True, True, Level.RACK),
        (FaultPolicy(process_recovery=ProcessRecovery.ON), 99, True, False, Level.POD),
        (FaultPolicy(process_recovery=ProcessRecovery.PAUSE), 0, True, True, Level.POD),
        (FaultPolicy(process_recovery=ProcessRecovery.PAUSE), 6, True, True, Level.BLOCK),
    ],
)
def test_F2_the_level_grows_with_the_seconds(
    policy: FaultPolicy, seconds: float, blocks: bool, racks: bool, level: Level
) -> None:
    lost = LostParts(present=(Position(1, 0 if blocks else -1, 0 if racks else -1),))
    assert level_now(policy, TIMES, seconds, lost) is level


def parts(pods: int, *lost: int, block: int = 0, rack: int = 0) -> LostParts:
    """A job of so many pods in blocks and logical racks of these sizes; 0: it has none."""
    places = [
        Position(rank, rank // block if block else -1, rank // rack if rack else -1, rank == 0)
        for rank in range(pods)
    ]
    return LostParts(
        tuple(places[rank] for rank in lost),
        tuple(place for place in places if place.rank not in lost),
    )


@pytest.mark.parametrize(
    ("policy", "seconds", "lost", "reached", "following"),
    [
        (POD_LEVEL, 0, parts(8, 7), Level.POD, (12, Level.JOB)),
        (POD_LEVEL, 0, parts(8, 7, block=4), Level.POD, (6, Level.BLOCK)),
        (POD_LEVEL, 4, parts(8, 7, block=4, rack=2), Level.RACK, (6, Level.BLOCK)),
        (POD_LEVEL, 4, parts(8, 2, block=4, rack=2), Level.RACK, (6, Level.JOB)),
        (POD_LEVEL, 12, parts(8, 7, block=4, rack=2), Level.JOB, None),
        (POD_LEVEL, 0, parts(8, 7, block=4, rack=2), Level.JOB, None),
        (WHOLE, 0, parts(8, 7, block=4, rack=2), Level.JOB, None),
        (FaultPolicy(process_recovery=ProcessRecovery.ON), 3, parts(8, 7, block=4, rack=2), Level.RACK, None),
    ],
)
def test_F2_the_next_level_is_the_next_one_that_the_job_has(
    policy: FaultPolicy,
    seconds: float,
    lost: LostParts,
    reached: Level,
    following: tuple[float, Level] | None,
) -> None:
    assert next_level(policy, TIMES, seconds, lost, reached) == following


@pytest.mark.parametrize(
    ("seconds", "lost", "level"),
    [
        (0, (0, 9), Level.JOB),
        (0, (1,), Level.POD),
        (3, (1,), Level.JOB),
        (3, (2,), Level.RACK),
        (6, (2,), Level.JOB),
        (6, (8,), Level.BLOCK),
    ],
)
def test_R3_a_fault_that_reaches_rank_0_restarts_the_job(
    seconds: float, lost: tuple[int, ...], level: Level
) -> None:
    assert level_now(POD_LEVEL, TIMES, seconds, parts(16, *lost, block=8, rack=2)) is level


LOST = Position(5, block=2, rack=3)


@pytest.mark.parametrize(
    ("pod", "level", "moves"),
    [
        (Position(6, 2, 3), Level.POD, False),
        (Position(6, 2, 3), Level.RACK, True),
        (Position(7, 2, 4), Level.RACK, False),
        (Position(7, 2, 4), Level.BLOCK, True),
        (Position(1, 0, 0), Level.BLOCK, False),
        (Position(1, 0, 0), Level.JOB, True),
    ],
)
def test_F2_which_healthy_pods_are_restarted(pod: Position, level: Level, moves: bool) -> None:
    assert is_in_scope(pod, level, [LOST]) is moves


def test_a_job_without_blocks_has_none_in_common() -> None:
    assert not is_in_scope(Position(1), Level.BLOCK, [Position(2)])


def test_where_rank_0_is_affected_the_whole_job_restarts() -> None:
    master = Position(0, 2, 0, master=True)
    assert effective_level(POD_LEVEL, Level.POD, [master], []) is Level.JOB
    assert effective_level(POD_LEVEL, Level.POD, [LOST], [master]) is Level.POD
    assert effective_level(POD_LEVEL, Level.BLOCK, [LOST], [master]) is Level.JOB
    only = FaultPolicy(only_pods=True)
    assert effective_level(only, Level.POD, [master], [master]) is Level.POD
