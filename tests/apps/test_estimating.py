"""What a copy finds about the starts of jobs comes back as an event, where it is news."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ringwise.apps.estimating import Answer, StartEstimator
from ringwise.apps.forked_queries import ForkedQueries
from ringwise.apps.journal.format import JournalWriter, open_journal
from ringwise.apps.kube_scheduler import estimate_starts
from ringwise.apps.replay import replay
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages.commands import SetGroupStatus
from ringwise.messages.events import Event
from ringwise.scheduler.explain.forecast import estimates
from ringwise.scheduler.journal import Journal
from ringwise.scheduler.view import SchedulerView
from ringwise.state.changes import Changes
from ringwise.views.dashboard import DashboardRows
from tests.builders.values import SECOND
from tests.scheduler.rig import Rig
from tests.timeouts import TEST_TIMEOUT

if TYPE_CHECKING:
    from ringwise.kube.run.runner import Runner


class Looking:
    """A rig that is looked at by copies of this process."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.told: list[Event] = []
        self._estimator = StartEstimator(ForkedQueries(pause=0), self._deciding, self._tell, every=0)

    async def _deciding(self, work: Callable[[SchedulerView, int], Answer]) -> Answer:
        return work(self.rig.machine.view, self.rig.now)

    def meanwhile(self) -> object:
        """What happens before the scheduler is told."""

    def _tell(self, events: Sequence[Event]) -> None:
        self.meanwhile()
        self.told += events
        self.rig.tell(*events)

    def look(self) -> int:
        """How many events came of it."""

        async def once() -> None:
            async with asyncio.timeout(TEST_TIMEOUT):
                await self._estimator.look()

        before = len(self.told)
        asyncio.run(once())
        return len(self.told) - before


def full(rig: Rig) -> Rig:
    rig.submit("runs", chips=8, expected="1000s")
    rig.run()
    for number in range(2):
        rig.submit(f"waits-{number}", chips=8, expected="500s")
    rig.run()
    return rig


def test_what_is_found_is_told_once() -> None:
    rig = full(Rig(1))
    began = rig.now
    looking = Looking(rig)
    assert looking.look() == 1
    rig.step()
    view = rig.machine.view
    first = view.expected_start("default/waits-0")
    assert first is not None
    assert (first.earliest, first.latest) == (began + 1000 * SECOND, began + 1000 * SECOND)
    assert looking.look() == 0, "nothing has happened since"
    rig.step(1)
    assert looking.look() == 0, "it is the same"
    rig.end("waits-0")
    rig.run()
    assert looking.look() == 1
    rig.step()
    second = view.expected_start("default/waits-1")
    assert second is not None
    assert second.latest == began + 1000 * SECOND


def test_what_happens_at_the_same_time_is_not_passed_over() -> None:
    """The time of a lab may stand still."""
    rig = full(Rig(1))
    looking = Looking(rig)
    assert looking.look() == 1
    rig.step()
    view = rig.machine.view
    assert view.expected_starts is not None
    rig.submit("later", chips=8)
    rig.step()
    assert "default/later" in estimates(view, rig.now)
    assert looking.look() == 1
    rig.step()
    assert view.expected_start("default/later") is not None


def test_what_happens_while_a_copy_looks_is_looked_at_next() -> None:
    class Disturbed(Looking):
        def meanwhile(self) -> None:
            if not self.told:
                self.rig.submit("later", chips=8)
                self.rig.step()

    rig = full(Rig(1))
    looking = Disturbed(rig)
    assert looking.look() == 1
    rig.step()
    view = rig.machine.view
    assert view.expected_start("default/later") is None
    assert looking.look() == 1
    rig.step()
    assert view.expected_start("default/later") is not None


def test_nobody_looks_where_nobody_waits() -> None:
    rig = Rig(1)
    rig.submit("runs", chips=8)
    rig.run()
    assert Looking(rig).look() == 0


class OtherThread:
    """What `estimate_starts` needs of a runner: a core of another thread, and whether it decides."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.deciding = asyncio.Event()
        self.told = asyncio.Event()

    async def ask(self, work: Callable[[int], Answer]) -> Answer:
        return work(self._rig.now)

    def put(self, events: Sequence[Event]) -> None:
        self._rig.tell(*events)
        self._rig.step()
        self.told.set()


async def test_the_scheduler_of_a_cluster_is_told_while_it_leads() -> None:
    rig = full(Rig(1))
    runner = OtherThread(rig)
    looking = asyncio.create_task(estimate_starts(cast("Runner", runner), lambda: rig.machine, every=0))
    try:
        # It does not lead yet: whatever it does now would be seen.
        await asyncio.sleep(0)
        assert not runner.told.is_set()
        runner.deciding.set()
        async with asyncio.timeout(TEST_TIMEOUT):
            await runner.told.wait()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert rig.machine.view.expected_start("default/waits-1") is not None


def difference(path: Path) -> object:
    return replay(open_journal(path), shipped_catalog()).difference


def test_a_replay_repeats_what_was_told(tmp_path: Path) -> None:
    rig = Rig(1)
    file = io.BytesIO()
    configuration = rig.machine.view.configuration
    writer = JournalWriter(file, configuration, rig.machine.view.scheduler_names)
    rig.machine.journal = Journal(configuration, sink=writer)
    full(rig)
    assert Looking(rig).look() == 1
    commands = rig.step()
    assert any(isinstance(one, SetGroupStatus) and one.start for one in commands)
    path = tmp_path / "journal"
    path.write_bytes(file.getvalue())
    assert b"StartsEstimated" in path.read_bytes()
    assert difference(path) is None
    changed = path.read_bytes().replace(b'"start":"1970-01-01T00:33:20Z"', b'"start":"1970-01-01T00:33:21Z"')
    path.write_bytes(changed)
    assert difference(path) is not None


def test_the_dashboard_shows_it_when_it_is_told() -> None:
    rig = full(Rig(1))
    looking = Looking(rig)
    changes = Changes()
    rig.machine.record_changes(changes)
    rows = DashboardRows(rig.machine.view, changes)
    assert rows.fill(1000)
    assert [row["expected_start"] for row in rows.jobs()] == [None, None, None]
    looking.look()
    rig.step()
    change = rows.follow(1, rig.now)
    assert change is not None
    found = {row["name"]: row["expected_start"] for row in change["jobs"]}
    assert sorted(found) == ["waits-0", "waits-1"]
    first = found["waits-0"]
    assert first is not None
    # As its PodGroup says it: a row stays while time passes, and names no other job.
    assert (first["message"], first["after"]) == ("1970-01-01T00:33:20Z", [])
    rig.end("runs")
    rig.run()
    change = rows.follow(2, rig.now)
    assert change is not None
    assert {row["name"]: row["expected_start"] for row in change["jobs"]}["waits-0"] is None
