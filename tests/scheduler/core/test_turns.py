"""Processor time is shared between namespaces: a turn ends after a limit, and a flood delays only itself."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ringwise.apps.journal.format import JournalWriter, open_journal
from ringwise.apps.replay import replay
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, Publish
from ringwise.scheduler.core import reservation_records, turns
from ringwise.scheduler.core.reservation_records import THROTTLED_PAUSE
from ringwise.scheduler.core.turns import WINDOW
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.scheduler.explain.why import explain
from ringwise.scheduler.journal import Journal
from ringwise.state.changes import Changes
from ringwise.views.dashboard import DashboardRows
from tests.builders.records import record_with, written_entries
from tests.builders.values import SECOND, group, pod
from tests.scheduler.rig import PLAIN, Rig

MILLISECOND = 1_000_000


class Burning:
    """A rig whose processor needs so long for each attempt of a job. The times are those of the test."""

    def __init__(self, cost: Callable[[Job], int], actions: tuple[str, ...] = PLAIN, nodes: int = 8) -> None:
        self.rig = Rig(nodes, actions=actions)
        self.time = 0
        #: Jobs as they are decided, turn by turn.
        self.turns: list[list[str]] = []
        self._cost = cost
        self.longest = 0
        #: The throttled namespaces of each document that was written.
        self.published: list[list[str]] = []
        self.file = io.BytesIO()
        machine = self.rig.machine
        names, settings = machine.view.scheduler_names, machine.view.configuration
        machine.journal = Journal(settings, sink=JournalWriter(self.file, settings, names))
        machine.measure(lambda: self.time)
        machine.observe(self._burn)

    def _burn(self, session: Session, job: Job) -> None:
        self.time += self._cost(job)
        self.turns[-1].append(job.key)

    def submit(self, namespace: str, *names: str, fits: bool = True, pods: int = 1, chips: int = 1) -> None:
        for name in names:
            self.rig.tell(group(name, pods, namespace=namespace))
            for index in range(pods):
                of_job: dict[str, Any] = {"namespace": namespace, "group": name, "cpu_milli": 1}
                selector = () if fits else (("no", "such"),)
                self.rig.put(pod(f"{namespace}-{name}-{index}", chips, node_selector=selector, **of_job))

    def turn(self, seconds: float = 0) -> list[str]:
        """The namespaces and names of the jobs that start in a turn."""
        self.turns.append([])
        before = self.time
        commands: list[Command] = self.rig.step(seconds)
        self.longest = max(self.longest, self.time - before)
        for command in commands:
            if isinstance(command, Publish) and "throttled.json" in command.data:
                self.published.append(list(written_entries([command], "throttled")))
        return [f"{command.namespace}/{command.pod}" for command in commands if isinstance(command, Bind)]

    def decided(self) -> list[str]:
        return [key for turn in self.turns for key in turn]

    def check_replay(self, path: Path) -> None:
        path.write_bytes(self.file.getvalue())
        answer = replay(open_journal(path), shipped_catalog())
        assert answer.difference is None
        assert answer.batches == len(self.turns)


def slow_flood(job: Job) -> int:
    return 50 * MILLISECOND if job.namespace == "flood" else 0


def test_a_turn_ends_after_the_limit_and_the_next_continues_in_the_same_order(tmp_path: Path) -> None:
    names = [f"j{number}" for number in range(40)]
    calm, slow = Burning(lambda job: 0), Burning(slow_flood)
    for one in (calm, slow):
        one.submit("flood", *names)
        one.turn()
    assert len(calm.turns) == 1
    assert 0 < len(slow.turns[0]) < 25
    assert slow.rig.machine.next_deadline() == slow.rig.now + 1
    while slow.rig.machine.next_deadline() is not None:
        slow.turn(0.1)
    assert slow.decided() == calm.decided()
    assert {name: pod.node for name, pod in slow.rig.pods.items()} == {
        name: pod.node for name, pod in calm.rig.pods.items()
    }
    assert slow.longest <= 2 * SECOND
    slow.check_replay(tmp_path / "journal")


@pytest.mark.parametrize("actions", [PLAIN, ("allocate", "preempt"), ("enqueue", "allocate", "reclaim")])
def test_a_job_of_another_namespace_starts_in_the_next_turn(tmp_path: Path, actions: tuple[str, ...]) -> None:
    burning = Burning(slow_flood, actions)
    burning.submit("flood", *(f"never{number}" for number in range(80)), fits=False)
    burning.turn()
    burning.submit("quiet", "job")
    assert burning.turn(1) == ["quiet/quiet-job-0"]
    # Before it one job of the namespace that is above its share, and others after it.
    assert burning.turns[-1].index("quiet/job") <= 1
    assert len(burning.turns[-1]) > 2
    assert burning.longest <= 2 * SECOND
    assert list(burning.rig.machine.view.history.throttled) == ["flood"]
    burning.check_replay(tmp_path / "journal")


def test_a_flood_from_a_second_namespace_has_no_credit_from_that_of_the_first(tmp_path: Path) -> None:
    slow = Burning(lambda job: 0 if job.namespace == "quiet" else 50 * MILLISECOND)
    slow.submit("first", *(f"never{number}" for number in range(40)), fits=False)
    for number in range(30):
        slow.rig.node(f"joins{number}", chips=0)
        slow.turn(1)
    slow.submit("another", *(f"never{number}" for number in range(100)), fits=False)
    slow.turn(1)
    slow.submit("quiet", "job")
    started: list[str] = []
    for number in range(3):
        slow.rig.node(f"changes{number}", chips=0)
        started += slow.turn(1)
    assert started == ["quiet/quiet-job-0"]
    slow.check_replay(tmp_path / "journal")


def test_after_a_minute_the_namespace_is_not_throttled_any_longer() -> None:
    burning = Burning(slow_flood)
    burning.submit("flood", *(f"j{number}" for number in range(40)))
    burning.turn()
    burning.submit("quiet", "job")
    while burning.turn(1):
        pass
    assert list(burning.rig.machine.view.history.throttled) == ["flood"]
    burning.turn(WINDOW)
    assert burning.rig.machine.view.history.throttled == {}


def test_without_a_flood_the_same_is_decided_at_the_same_time(tmp_path: Path) -> None:
    measured, plain = Burning(lambda job: MILLISECOND), Rig(8, actions=PLAIN)
    commands = []
    for namespace in ("a", "b"):
        measured.submit(namespace, *(f"j{number}" for number in range(30)), pods=2)
    plain.tell(*measured.rig.events)
    for rig in (measured.rig, plain):
        measured.turns.append([])
        commands.append(rig.step())
    assert commands[0] == commands[1]
    assert b"marks" not in measured.file.getvalue()


def test_a_job_that_takes_longer_than_the_limit_is_next_tried_alone(tmp_path: Path) -> None:
    slow = Burning(lambda job: 3 * SECOND if job.name == "huge" else 100 * MILLISECOND)
    slow.submit("team", "huge", fits=False)
    slow.submit("team", "small0")
    slow.turn()
    for number in range(3):
        slow.submit("team", f"small{number + 1}")
        slow.rig.node("flaps", chips=0, labels={"turn": str(number)})
        slow.turn(1)
        if slow.rig.machine.next_deadline() == slow.rig.now + 1:
            slow.turn()
    for jobs in slow.turns[1:]:
        # It comes after all others of the turn, or in a turn of its own.
        assert "team/huge" not in jobs[:-1]
    assert sum("team/huge" in jobs for jobs in slow.turns) > 2
    slow.check_replay(tmp_path / "journal")


def test_a_gang_that_takes_longer_than_the_limit_is_tried_though_many_jobs_of_another_namespace_do(
    tmp_path: Path,
) -> None:
    slow = Burning(lambda job: 2 * SECOND)
    slow.submit("flood", *(f"never{number}" for number in range(30)), fits=False)
    slow.submit("team", "gang", fits=False)
    for number in range(24):
        slow.rig.node(f"joins{number}", chips=0)
        slow.turn(1)
    tried = [number for number, jobs in enumerate(slow.turns) if "team/gang" in jobs]
    assert tried[0] <= 3
    assert max(later - earlier for earlier, later in pairwise(tried)) <= 4
    assert len(tried) < len(slow.turns) / 2
    slow.check_replay(tmp_path / "journal")


@pytest.mark.parametrize(
    "actions", [("allocate",), ("enqueue", "allocate"), ("enqueue", "allocate", "backfill")]
)
def test_jobs_that_are_tried_again_in_every_turn_do_not_keep_the_last_from_its_first_attempt(
    tmp_path: Path, actions: tuple[str, ...]
) -> None:
    slow = Burning(lambda job: 50 * MILLISECOND, actions)
    slow.submit("team", *(f"never{number}" for number in range(60)), fits=False)
    slow.submit("team", "z-last")
    for number in range(12):
        slow.rig.node(f"joins{number}", chips=0)
        if slow.turn(1):
            break
    assert slow.rig.pods["team-z-last-0"].node
    slow.check_replay(tmp_path / "journal")


def test_a_job_is_admitted_though_another_lost_its_admission_and_every_turn_is_cut(tmp_path: Path) -> None:
    slow = Burning(slow_flood)
    slow.submit("team", "runs")
    slow.turn()
    slow.submit("flood", *(f"never{number}" for number in range(100)), fits=False)
    slow.turn(1)
    slow.turn(1)
    slow.rig.gone("team-runs-0")
    slow.rig.tell(ev.PodGroupSeen(group("job", namespace="quiet", phase="Pending")))
    for number in range(4):
        slow.rig.node(f"joins{number}", chips=0)
        slow.turn(1)
        assert slow.rig.machine.next_deadline() == slow.rig.now + 1
    assert slow.rig.machine.view.jobs["quiet/job"].inqueue
    slow.check_replay(tmp_path / "journal")


def test_the_limit_grows_with_the_pods_of_the_job_in_hand() -> None:
    # Half of the limit is for the action, the second of three.
    gang = Burning(lambda job: 600 * MILLISECOND if job.name == "gang" else 0)
    gang.submit("team", "gang", pods=60, chips=0)
    gang.submit("team", "next")
    assert "team/team-next-0" in gang.turn()


def test_more_jobs_than_one_cycle_may_have_are_tried_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "MAX_JOBS", 5)
    burning = Burning(lambda job: 0)
    burning.submit("team", *(f"j{number}" for number in range(17)))
    assert len(burning.turn()) == 17
    assert burning.rig.machine.next_deadline() is None
    burning.check_replay(tmp_path / "journal")


def test_throttled_namespaces_are_shown() -> None:
    burning = Burning(slow_flood)
    view = burning.rig.machine.view
    burning.submit("flood", *(f"never{number}" for number in range(60)), fits=False)
    burning.turn()
    rows = DashboardRows(view, Changes())
    while not rows.fill(1000):
        pass
    assert "throttled" not in rows.totals()
    burning.submit("quiet", "job")
    burning.turn(1)
    used = view.history.throttled["flood"]
    assert rows.totals()["throttled"] == {"flood": round(used / SECOND, 1)}
    (finding,) = [one for one in diagnose(view).findings if one.code == "namespace-throttled"]
    assert finding.object == "namespace flood"
    said = f"its jobs took {used / SECOND:.1f}s of processor time"
    assert said in finding.message
    notes = {
        key: [note for note in explain(view, view.jobs[key], burning.rig.now).notes if said in note]
        for key in ("flood/never1", "quiet/job")
    }
    assert len(notes["flood/never1"]) == 1
    assert notes["quiet/job"] == []


def flooded(*namespaces: str) -> Burning:
    """Jobs of these namespaces that never fit take long, while `quiet` has a job, too."""
    burning = Burning(lambda job: 0 if job.namespace == "quiet" else 50 * MILLISECOND)
    for namespace in namespaces:
        burning.submit(namespace, *(f"never{number}" for number in range(100)), fits=False)
        burning.turn()
    burning.submit("quiet", "job")
    burning.turn(1)
    return burning


def test_throttled_namespaces_are_written_when_they_change(tmp_path: Path) -> None:
    burning = flooded("flood")
    assert burning.published == [["flood"]]
    # As long as it is throttled nothing more is written, and by time alone that it is not.
    deadline, turns = burning.rig.machine.next_deadline(), 0
    while deadline is not None:
        burning.turn(max(0.1, (deadline - burning.rig.now) / SECOND))
        deadline, turns = burning.rig.machine.next_deadline(), turns + 1
        assert turns < 100
    assert burning.rig.machine.view.history.throttled == {}
    assert burning.published == [["flood"], []]
    burning.check_replay(tmp_path / "journal")


def test_changing_namespaces_are_written_after_a_pause(tmp_path: Path) -> None:
    burning = flooded("flood")
    for number in range(9):
        burning.rig.tell(record_with("throttled", {f"other{number}": None}, takes_over=False))
        burning.turn(0.5)
    assert burning.published == [["flood"]]
    burning.turn(THROTTLED_PAUSE / SECOND)
    assert burning.published[1:] == [["flood", *(f"other{number}" for number in range(9))]]
    burning.check_replay(tmp_path / "journal")


def test_the_number_of_namespaces_that_are_written_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation_records, "MAX_THROTTLED", 2)
    burning = Burning(lambda job: 0)
    for names in ({"d": None, "y": 1}, {"c": None, "a": None, "x": None}, ["x"]):
        burning.rig.tell(record_with("throttled", names, takes_over=False))
    burning.turn()
    assert list(burning.rig.machine.view.history.throttled) == ["a", "c", "d"]
    assert burning.published == [["a", "c"]]


def test_a_next_leader_ignores_what_was_written_and_another_reader_knows_it() -> None:
    burning = flooded("flood")
    (event,) = [
        one for one in burning.rig.machine.view.current_events() if isinstance(one, ev.LeaderRecordRead)
    ]
    reader, leader = Rig(1), Rig(1)
    reader.tell(event)
    reader.step()
    assert reader.machine.view.history.throttled == {"flood": 0}
    assert reader.machine.next_deadline() == reader.now + WINDOW * SECOND
    (finding,) = [one for one in diagnose(reader.machine.view).findings if one.code == "namespace-throttled"]
    assert "took" not in finding.message
    leader.tell(replace(event, takes_over=True))
    commands = leader.step()
    assert leader.machine.view.history.throttled == {}
    (written,) = [one for one in commands if isinstance(one, Publish) and "throttled.json" in one.data]
    assert written.data["throttled.json"] == ""
