"""What is expected beside the scheduler is told to it, kept, and written into conditions with moderation."""

from __future__ import annotations

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import SetGroupStatus
from ringwise.messages.expected_start import ExpectedStart, StartKind, unknown_start
from ringwise.scheduler.cache.expected_starts import MAX_REPORTED
from ringwise.state.changes import Changes
from tests.builders.values import SECOND
from tests.scheduler.rig import Rig


def known(time: int, latest: int | None = None) -> ExpectedStart:
    return ExpectedStart(StartKind.KNOWN, time, latest or time, ("default/secret",))


def told(rig: Rig, **starts: ExpectedStart) -> dict[str, str]:
    """What conditions say after this was estimated, of the jobs whose conditions are written."""
    estimated = tuple(ev.EstimatedStart(f"default/{name}", start) for name, start in starts.items())
    rig.tell(ev.StartsEstimated(estimated))
    commands = rig.step()
    return {
        one.key.removeprefix("default/"): one.start for one in commands if isinstance(one, SetGroupStatus)
    }


def waiting(jobs: int = 1) -> Rig:
    rig = Rig(1)
    rig.submit("runs", chips=8)
    rig.run()
    for number in range(jobs):
        rig.submit(f"job-{number}", chips=8)
    rig.run()
    return rig


def test_a_condition_says_when_the_job_is_expected_to_start() -> None:
    rig = waiting()
    start = known(rig.now + 100 * SECOND)
    # Other jobs may be of other namespaces: a condition does not name them.
    assert told(rig, **{"job-0": start}) == {"job-0": "1970-01-01T00:18:20Z"}
    assert rig.machine.view.expected_start("default/job-0") == start


@pytest.mark.parametrize(("later", "written"), [(0, False), (9, False), (10, True), (-9, False), (-10, True)])
def test_a_condition_is_written_again_where_a_tenth_is_different(later: int, written: bool) -> None:
    rig = waiting()
    at = rig.now + 100 * SECOND
    told(rig, **{"job-0": known(at)})
    assert bool(told(rig, **{"job-0": known(at + later * SECOND)})) is written
    assert bool(told(rig, **{"job-0": known(at + later * SECOND, at + 300 * SECOND)}))
    assert bool(told(rig, **{"job-0": unknown_start("nobody knows")}))
    # Another number in the reason is not worth a write.
    assert not told(rig, **{"job-0": unknown_start("somebody knows")})


@pytest.mark.parametrize(
    ("earliest", "latest", "text"),
    [
        (0, 580, "<9m40s"),
        (0, 600, "<10m"),
        (0, 2 * 3600 + 30, "<2h1m"),
        (0, 2 * 3600 + 3540, "<2h59m"),
        (580, 580, "9m40s"),
        (580, 2380, "9m40s-39m40s"),
        (60, 60.5, "1m-1m1s"),
        (0, 0, "now"),
    ],
)
def test_a_latest_time_is_not_shortened_to_an_earlier_one(earliest: float, latest: float, text: str) -> None:
    now = 1000 * SECOND
    start = ExpectedStart(StartKind.KNOWN, now + int(earliest * SECOND), now + int(latest * SECOND))
    assert start.short(now) == text


def test_a_condition_is_not_written_again_because_time_passes() -> None:
    """A running job does not say when it ends: the one that waits may start at any moment from now on."""
    rig = waiting()
    latest = rig.now + 100 * SECOND
    assert told(rig, **{"job-0": known(rig.now, latest)})
    for _ in range(3):
        rig.step(20)
        assert not told(rig, **{"job-0": known(rig.now, latest)})
    assert told(rig, **{"job-0": known(rig.now + 10 * SECOND, latest)}), "no longer at any moment"
    rig.step(50)
    assert told(rig, **{"job-0": known(rig.now, rig.now)}), "what was the latest time is over"


def test_rows_follow_also_what_conditions_do_not_say() -> None:
    rig = waiting()
    at = rig.now + 100 * SECOND
    told(rig, **{"job-0": known(at)})
    rig.run()
    changes = Changes()
    rig.machine.record_changes(changes)
    assert not told(rig, **{"job-0": known(at + SECOND)})
    assert changes.jobs == {"default/job-0"}
    assert rig.machine.view.expected_start("default/job-0") == known(at + SECOND)


def test_small_steps_add_up() -> None:
    rig = waiting()
    at = rig.now + 100 * SECOND
    told(rig, **{"job-0": known(at)})
    written = [bool(told(rig, **{"job-0": known(at + step * SECOND)})) for step in range(1, 12)]
    assert written == [False] * 9 + [True, False]


def test_the_first_of_a_queue_are_told() -> None:
    rig = waiting(MAX_REPORTED + 2)
    starts = {f"job-{number}": known(rig.now + (number + 1) * SECOND) for number in range(MAX_REPORTED + 2)}
    assert list(told(rig, **starts)) == list(starts)[:MAX_REPORTED]
    del starts["job-0"]
    assert told(rig, **starts) == {"job-0": "", f"job-{MAX_REPORTED}": "1970-01-01T00:18:21Z"}


def test_what_changed_or_started_is_forgotten() -> None:
    rig = waiting(2)
    starts = {f"job-{number}": known(rig.now + 100 * SECOND) for number in range(2)}
    told(rig, **starts)
    rig.change("job-1-0", labels={"other": "label"})
    rig.run()
    view = rig.machine.view
    assert view.expected_start("default/job-1") is None
    assert view.expected_start("default/job-0") is not None
    rig.end("runs")
    rig.run()
    assert view.expected_start("default/job-0") is None
    # Of a job that runs, or is not there, nothing is taken.
    assert not told(rig, **{"job-0": known(rig.now), "nobody": known(rig.now)})
    assert view.expected_start("default/nobody") is None
