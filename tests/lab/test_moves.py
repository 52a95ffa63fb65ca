"""M1 in a lab: plans are applied, automatic moves keep their limits, and replay repeats all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from ringwise.apps.auto_moves import chips_left
from ringwise.apps.journal.format import open_journal
from ringwise.apps.lab.client import LabClient
from ringwise.apps.lab.folder import LabFolder
from ringwise.apps.lab.lab import FleetSettings, LabSettings, LiveLab
from ringwise.apps.lab.queries import LabAnswers
from ringwise.apps.lab.requests import FollowRequest, MoveRequest
from ringwise.apps.replay import replay
from ringwise.durations import SECOND
from ringwise.manifests.objects.custom_resources import CustomResourceWire
from ringwise.manifests.objects.move_plans import move_plan_from_wire
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.errors import Findings
from ringwise.messages.move_plan import DONE, MovePlan
from ringwise.state.model import Pod
from ringwise.wellknown import EXPECTED_DURATION, MOVABLE, RESTART_COST
from tests.builders.values import vcjob
from tests.lab.rig import Terminal, job, nodes, with_copies

START = 1_700_000_000 * SECOND


@contextmanager
def fragmented(path: Path, settings: str = "", **small: str) -> Iterator[LiveLab]:
    """Two nodes: small has a chip of the first, half of the second is used; big waits for a whole node."""
    text = f"configurations:\n- name: init-params\n  arguments: {{{settings}}}\n"
    configuration = (text, "test") if settings else None
    folder = LabFolder(path)
    folder.take()
    fleet = FleetSettings(2, "910-x8")
    live = LiveLab(folder, LabSettings(fleet, configuration, speed=None, start=START))
    try:
        for name, chips, notes in (("small", 1, small), ("other", 4, {}), ("filler", 4, {})):
            live.cluster.submit(vcjob(name, 1, chips, annotations={**notes, EXPECTED_DURATION: "10h"}))
            live.advance(5 * SECOND)
        live.delete([("job", "default/other")])
        live.advance(5 * SECOND)
        live.cluster.submit(vcjob("big", 1, 8))
        live.turn()
        yield live
    finally:
        live.close()
        folder.leave()


def planned(live: LiveLab, job: str) -> tuple[MovePlan, dict[str, Any]]:
    """The plan for a job, and its object."""
    (body,) = LabAnswers(live).move_plans(job).objects
    found = Findings("MovePlan")
    plan = move_plan_from_wire(msgspec.convert(body, CustomResourceWire), found)
    assert found.errors == []
    return plan, body


def where(live: LiveLab, job: str) -> Any:
    return next(pod.node for pod in live.cluster.all(Pod) if pod.name.startswith(job))


def check_replay(path: Path) -> None:
    answer = replay(open_journal(LabFolder(path).journal), shipped_catalog())
    assert answer.batches > 0
    assert answer.difference is None


def test_M1_a_plan_is_applied_and_replayed(tmp_path: Path) -> None:
    with fragmented(tmp_path) as live:
        before = where(live, "small")
        plan, _ = planned(live, "big")
        # Small would run for ten hours: that is known, and so is what the move saves.
        assert plan.saving is not None
        assert plan.saving > plan.cost > 0
        live.move(plan)
        live.advance(30 * SECOND)
        assert live.view.history.moves.ended[plan.id].outcome == DONE
        assert where(live, "small") != before
        assert where(live, "big") == before
        assert live.cluster.alarms == []
        counts = live.view.history.moves.counts
        assert (counts.accepted, counts.done, counts.failed) == (1, 1, 0)
        assert (counts.saved, counts.spent) == (plan.saving, plan.cost)
    check_replay(tmp_path)


def test_M1_a_plan_goes_on_after_a_restart_of_the_lab(tmp_path: Path) -> None:
    with fragmented(tmp_path) as live:
        before = where(live, "small")
        plan, _ = planned(live, "big")
        live.move(plan)
    folder = LabFolder(tmp_path)
    again = LiveLab(folder, LabSettings(speed=None))
    try:
        again.turn()
        again.advance(30 * SECOND)
        assert again.view.history.moves.ended[plan.id].outcome == DONE
        assert where(again, "big") == before
    finally:
        again.close()


def test_auto_moves_a_job_that_allows_it(tmp_path: Path) -> None:
    with fragmented(tmp_path, "defragment: auto", **{MOVABLE: "true"}) as live:
        before = where(live, "small")
        live.advance(30 * SECOND)
        (ended,) = live.view.history.moves.ended.values()
        assert ended.outcome == DONE
        assert where(live, "big") == before
    check_replay(tmp_path)


@pytest.mark.parametrize(
    ("settings", "small"),
    [
        ("defragment: auto", {}),
        ("defragment: plan", {MOVABLE: "true"}),
        ("defragment: off", {MOVABLE: "true"}),
        # A restart costs more than ten hours of eight chips.
        ("defragment: auto", {MOVABLE: "true", RESTART_COST: "81h"}),
        ("defragment: auto, move-chips-per-hour: 0", {MOVABLE: "true"}),
    ],
)
def test_auto_moves_nobody_else(tmp_path: Path, settings: str, small: dict[str, str]) -> None:
    with fragmented(tmp_path, settings, **small) as live:
        live.advance(600 * SECOND)
        assert live.view.history.moves.ended == {}
        assert live.view.history.moves.plans == {}
        assert where(live, "big") is None


@pytest.mark.parametrize(("again", "moved"), [("", 1), (", move-again-after: 60", 2)])
def test_auto_moves_a_job_once_a_day(tmp_path: Path, again: str, moved: int) -> None:
    with fragmented(tmp_path, f"defragment: auto{again}", **{MOVABLE: "true"}) as live:
        live.advance(30 * SECOND)
        assert chips_left(live.view, live.now) == 31
        here, empty = where(live, "small"), where(live, "big")
        live.delete([("job", "default/big"), ("job", "default/filler")])
        live.cordon([here])
        live.advance(120 * SECOND)
        live.cluster.submit(vcjob("half", 1, 4, annotations={EXPECTED_DURATION: "10h"}))
        live.advance(5 * SECOND)
        assert where(live, "half") == empty
        live.cordon([here], on=False)
        live.cluster.submit(vcjob("wide", 1, 8))
        live.advance(600 * SECOND)
        assert len(live.view.history.moves.ended) == moved
        assert where(live, "small") == (here if moved == 1 else empty)


def submitted(terminal: Terminal) -> None:
    terminal.submit(job("small", minutes=600))
    terminal.submit(job("other", chips=4))
    terminal.submit(job("filler", chips=4, minutes=600))
    terminal.ok("advance 5s")
    terminal.ok("delete job lab/other")
    terminal.ok("advance 5s")
    terminal.submit(job("big", chips=8))


def test_defrag_apply_moves_the_jobs_that_its_question_names(tmp_path: Path) -> None:
    with with_copies(tmp_path, nodes(2)):
        terminal = Terminal(tmp_path)
        submitted(terminal)
        before = terminal.seats()["lab/small-worker-0"]
        no = terminal.run("defrag --apply", "n\n")
        assert no.exit_code == 1
        assert "move lab/small and evict 1 pod?" in no.stderr
        assert terminal.seats()["lab/small-worker-0"] == before
        without_answer = terminal.run("defrag --apply --for lab/big", "")
        assert without_answer.exit_code == 2
        assert "--yes moves without confirmation" in without_answer.stderr
        yes = terminal.run("defrag --apply --for lab/big -o json", "y\n")
        assert yes.exit_code == 0, yes.output
        (done,) = json.loads(yes.stdout)["plans"]
        assert (done["state"], done["message"]) == ("done", "")
        seats = terminal.seats()
        assert seats["lab/small-worker-0"][0] != before[0]
        assert seats["lab/big-worker-0"][0] == before[0]
        # Nothing is left to do.
        again = terminal.run("defrag --apply --yes")
        assert again.exit_code == 0
        assert "nothing was changed" in again.stdout


def test_defrag_apply_says_why_a_plan_failed(tmp_path: Path) -> None:
    with with_copies(tmp_path, nodes(2)) as server:
        terminal = Terminal(tmp_path)
        submitted(terminal)
        plan, body = planned(server.live, "lab/big")
        client = LabClient(tmp_path)
        client.do("move", MoveRequest(body))
        terminal.ok(f"cordon {plan.moves[0].pods[0].node}")
        found = client.do("follow", FollowRequest(plan.id))
        assert found["result"]["state"] == "failed"
        assert "takes no pods" in found["result"]["message"]
        terminal.ok("advance 30s")
        # It has its old place again.
        assert terminal.seats()["lab/small-worker-0"] == (
            plan.moves[0].old[0].node,
            plan.moves[0].old[0].chips,
        )


def test_why_names_a_plan_that_is_carried_out(tmp_path: Path) -> None:
    with with_copies(tmp_path, nodes(2)) as server:
        terminal = Terminal(tmp_path)
        submitted(terminal)
        _, body = planned(server.live, "lab/big")
        LabClient(tmp_path).do("move", MoveRequest(body))
        said = terminal.ok("why big")
        assert "jobs are moved so that it can start: lab/small" in said
        printed = terminal.ok("defrag --plan")
        assert "lab/big: 1 job is already being moved so that lab/big can start" in printed
        # Its room is kept because of the plan: it came a moment ago.
        assert "\n8 chips are reserved for it until it can start\n" in said


def test_defrag_needs_to_know_what_to_do(tmp_path: Path) -> None:
    with with_copies(tmp_path, nodes(2)):
        terminal = Terminal(tmp_path)
        for options in ("", "--plan --apply"):
            assert "or --apply is required" in terminal.run(f"defrag {options}").stderr


def test_an_interrupt_leaves_the_plan_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ringwise.cli.change.targets.LabTarget.follow", interrupted)
    with with_copies(tmp_path, nodes(2)):
        terminal = Terminal(tmp_path)
        submitted(terminal)
        before = terminal.seats()["lab/small-worker-0"]
        ran = terminal.run("defrag --apply --yes")
        assert ran.exit_code == 130
        assert "continues without this command" in ran.stderr
        terminal.ok("advance 30s")
        assert terminal.seats()["lab/big-worker-0"][0] == before[0]
        # The command that is named tells the rest.
        command = ran.stderr.partition("to follow it: ringwise ")[2]
        entries = terminal.json(command)["entries"]
        # M1: a move is not a fault, and nothing of the job that waited was restarted.
        assert [one["message"] for one in entries if one["kind"] == "move"] == [
            "lab/small moves so that it can start",
            "it could start because lab/small moved",
        ]


def test_plans_are_submitted_listed_approved_and_deleted(tmp_path: Path) -> None:
    with with_copies(tmp_path / "lab", nodes(2)):
        terminal = Terminal(tmp_path / "lab")
        submitted(terminal)
        before = terminal.seats()
        text = terminal.ok("defrag --plan --for lab/big -o yaml")
        file = tmp_path / "plan.yaml"
        file.write_text(text)
        name = yaml.safe_load(text)["metadata"]["name"]
        assert f"MovePlan {name} created" in terminal.ok(f"submit -f {file}")
        (row,) = terminal.json("get moveplans")["moveplans"]
        assert (row["name"], row["state"], row["approval"]) == (name, "pending", "Pending")
        assert name in terminal.ok("get mp")
        assert "moving 1 job (1 chip) starts lab/big" in terminal.ok(f"describe moveplan {name}")
        terminal.ok("advance 5m")
        assert terminal.seats() == before
        # Its moves are immutable, and nobody approves them by the way.
        file.write_text(text.replace("costChipSeconds: 600", "costChipSeconds: 601"))
        assert "its moves are immutable" in terminal.run(f"submit -f {file}").stderr
        file.write_text(text.replace("approval: Pending", "approval: Approved"))
        terminal.ok(f"submit -f {file}")
        assert terminal.json("get moveplans")["moveplans"][0]["state"] == "running"
        terminal.ok(f"delete moveplan {name}")
        assert terminal.json("get moveplans")["moveplans"] == []
        assert "lab/big: the last" not in terminal.ok("why big")
        terminal.ok("advance 30s")
        # The pod was on its way; the next plan is found and carried out.
        assert "lab/small-worker-0" in terminal.seats()


def test_a_finished_plan_of_a_lab_is_deleted_and_known_after_a_restart(tmp_path: Path) -> None:
    with fragmented(tmp_path) as live:
        plan, _ = planned(live, "big")
        live.move(plan)
        live.advance(60 * SECOND)
        (known,) = live.cluster.all(MovePlan)
        assert (known.state, known.finished > 0) == (DONE, True)
    again = LiveLab(LabFolder(tmp_path), LabSettings(speed=None))
    try:
        again.turn()
        (known,) = again.cluster.all(MovePlan)
        assert known.state == DONE
        assert known.ttl is not None
        again.advance(known.ttl * SECOND)
        assert again.cluster.all(MovePlan) == []
    finally:
        again.close()
