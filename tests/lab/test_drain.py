"""`ringwise drain TARGET --plan` tries a drain on a copy; `drain` evicts one job after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ringwise.apps.lab import maintenance
from ringwise.apps.lab.api import LabServer
from ringwise.apps.lab.lab import copy_of
from ringwise.apps.lab.maintenance import left_by_drain
from ringwise.embed.objects import ObjectChange
from ringwise.state.model import Node, Pod
from ringwise.views.cluster import job_views, views_of_pods
from ringwise.wellknown import ASCEND910
from tests.builders.values import SECOND
from tests.golden_files import same_as_golden
from tests.lab.rig import Terminal, job, nodes, pod, queue, running, with_copies


def everything(server: LabServer) -> tuple[Any, ...]:
    live = server.live
    objects: list[ObjectChange] = list(live.cluster.table.all())
    return live.now, live.cluster.table.version, objects, live.lab.next_deadline(), live.view.history.cycles


def jobs(plan: Any) -> dict[str, tuple[str, float | None]]:
    return {one["name"]: (one["result"], one["pending_seconds"]) for one in plan["jobs"]}


def test_a_plan_says_who_moves_who_waits_and_changes_nothing(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(5, leaf_size=2)) as server:
        terminal.submit(job("first", 2, 8, minutes=60), job("second", 2, 8, minutes=30))
        terminal.submit(pod("alone", 4))
        terminal.ok("advance 10m")
        before = everything(server)
        seats = terminal.seats()
        plan = terminal.json("drain switch/172.0.0.0 --plan")
        assert everything(server) == before
        assert plan["nodes"] == ["node-0", "node-1"]
        under = {name.rpartition("-worker")[0] for name, (node, _) in seats.items() if node in plan["nodes"]}
        assert {f"lab/{name}" for name in jobs(plan)} >= {name for name in under if name}
        printed = terminal.ok("drain switch/172.0.0.0 --plan")
        assert "nothing was changed: the plan was tried on a copy" in printed
        assert terminal.seats() == seats


def test_a_job_that_finds_room_moves_and_one_without_waits_for_an_end(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(2)):
        terminal.submit(job("short", 1, 8, minutes=30))
        terminal.submit(job("long", 1, 8))
        terminal.ok("advance 10m")
        where = terminal.seats()["lab/long-worker-0"][0]
        (left,) = terminal.json(f"drain {where} --plan")["jobs"]
        assert (left["result"], left["pending_seconds"], left["pods"]) == ("not-evicted", None, [])
        ran = terminal.run(f"drain {where} --yes")
        assert (
            f"lab/long is not evicted, because it could not run again: {left['reason']} (--force"
            in ran.stderr
        )
        said = " ".join(terminal.ok(f"drain {where} --plan").split())
        assert f"not evicted it could not run again: {left['reason']} (--force evicts it)" in said
        terminal.ok(f"uncordon {where}")
        plan = terminal.json(f"drain {where} --plan --force")
        # The short job has 20 minutes and 2 seconds to go when the long one is evicted.
        assert jobs(plan) == {"long": ("pending", 1202.0)}
        (moved,) = plan["jobs"][0]["pods"]
        assert (moved["from"], moved["to"]) == (where, terminal.seats()["lab/short-worker-0"][0])
        terminal.ok("delete job short")
        terminal.ok("advance 1m")
        assert jobs(terminal.json(f"drain {where} --plan"))["long"][0] == "moves"


def test_a_plan_without_an_end_gives_the_reason(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(1)):
        terminal.submit(job("train", 1, 8), pod("alone", 0))
        terminal.ok("advance 1m")
        plan = terminal.json("drain node-0 --plan --force")
        assert jobs(plan) == {"train": ("pending", None), "alone": ("not-restarted", None)}
        assert plan["jobs"][0]["reason"] or plan["jobs"][1]["reason"]
        assert (
            terminal.ok("drain node-0 --plan --force --lab " + str(tmp_path)).count("not started again") == 1
        )


def test_a_drain_goes_as_its_plan_and_job_by_job(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(4, leaf_size=2)):
        terminal.submit(job("first", 1, 8), job("second", 1, 8))
        terminal.ok("advance 1m")
        target = "switch/172.0.0.0"
        plan = terminal.json(f"drain {target} --plan")
        assert {outcome for outcome, _ in jobs(plan).values()} == {"moves"}
        said = terminal.ok(f"drain {target} --yes")
        assert said.startswith("leaf switch 172.0.0.0 cordoned; 2 pods evicted\n")
        terminal.ok("advance 1m")
        seats = terminal.seats()
        for one in plan["jobs"]:
            assert seats[f"lab/{one['pods'][0]['name']}"][0] == one["pods"][0]["to"]
        story = [
            next(
                entry for entry in terminal.json(f"why {name} --history")["entries"] if entry["kind"] == kind
            )
            for name, kind in (("first", "deleted"), ("second", "deleted"))
        ]
        drains = [
            entry["message"]
            for entry in terminal.json("why second --history")["entries"]
            if entry["kind"] == "drain"
        ]
        before = plan["jobs"][1]["pods"][0]["from"]
        assert drains == [f"second-worker-0 must be evicted: {before} is cordoned"]
        # The second is evicted when the first runs again.
        assert story[1]["nanoseconds"] - story[0]["nanoseconds"] >= 4_000_000_000


def test_a_drain_of_several_nodes_cordons_all_before_the_scheduler_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(4, leaf_size=2)) as server:
        live = server.live
        terminal.ok("cordon node-2 node-3")
        terminal.submit(job("train", 1, 8))
        terminal.ok("uncordon node-2 node-3")
        assert terminal.seats()["lab/train-worker-0"][0] in ("node-0", "node-1")
        cordoned: list[int] = []
        turn = live.turn

        def watched_turn() -> None:
            cordoned.append(sum(one.unschedulable for one in live.cluster.all(Node)))
            turn()

        monkeypatch.setattr(live, "turn", watched_turn)
        terminal.ok("drain switch/172.0.0.0 --yes")
        terminal.ok("advance 10s")
        assert cordoned
        assert set(cordoned) == {2}
        assert terminal.seats()["lab/train-worker-0"][0] in ("node-2", "node-3")


def test_F4_a_drain_leaves_a_job_that_could_not_be_completed_and_moves_the_next(tmp_path: Path) -> None:
    """One node is free under the other leaf switch: the gang of two stays, and the next job has that node."""
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(5, leaf_size=3)):
        for name, pods in (("wide", 2), ("narrow", 1), ("other", 1)):
            terminal.submit(job(name, pods, 8))
            terminal.ok("advance 1m")
        before = {name: node for name, (node, _) in terminal.seats().items()}
        assert {before[f"lab/{name}"] for name in ("wide-worker-0", "wide-worker-1", "narrow-worker-0")} == {
            "node-0",
            "node-1",
            "node-2",
        }
        ran = terminal.run("drain switch/172.0.0.0 --yes")
        assert ran.exit_code == 1
        assert ran.stdout == "leaf switch 172.0.0.0 cordoned; 1 pod evicted\n  lab/narrow-worker-0\n"
        assert ran.stderr.startswith("note: lab/wide is not evicted, because it could not run again: ")
        assert ran.stderr.endswith("ringwise: not evicted: lab/wide\n")
        terminal.ok("advance 1m")
        after = {name: node for name, (node, _) in terminal.seats().items()}
        assert after.pop("lab/narrow-worker-0") in ("node-3", "node-4")
        assert after == {name: node for name, node in before.items() if "narrow" not in name}
        assert "2 pods evicted" in terminal.ok("drain switch/172.0.0.0 --yes --force")


def test_F4_a_drain_tries_a_bounded_number_of_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No job of a full cluster could be complete again: each would cost a copy of the state."""
    made: list[int] = []

    def counted(*arguments: Any) -> Any:
        made.append(1)
        return copy_of(*arguments)

    monkeypatch.setattr(maintenance, "copy_of", counted)
    with with_copies(tmp_path, nodes(2)) as server:
        Terminal(tmp_path).submit(*(job(f"train-{number}", 1, 1) for number in range(16)))
        Terminal(tmp_path).ok("advance 1m")
        live = server.live
        left = left_by_drain(live.cluster.table, live.now, live.settings, ["node-0", "node-1"])
    assert len(made) == maintenance.MAX_COPIES
    assert len(left) == 16
    assert sum(why == maintenance.NOT_TRIED for why in left.values()) == 16 - maintenance.MAX_COPIES


def test_F4_what_is_tried_for_a_drain_has_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "PLAN_STEPS", 0)
    monkeypatch.setattr(maintenance, "JOB_STEPS", 1)
    with with_copies(tmp_path, nodes(3)) as server:
        Terminal(tmp_path).submit(*(job(f"train-{number}", 1, 8) for number in range(2)))
        Terminal(tmp_path).ok("advance 1m")
        live = server.live
        on = sorted(str(pod.node) for pod in live.cluster.all(Pod))
        left = left_by_drain(live.cluster.table, live.now, live.settings, on)
    assert left
    assert maintenance.NOT_TRIED in left.values()


@pytest.mark.parametrize("labels", [{}, {"fault-scheduling": "force"}, {"pod-rescheduling": "on"}])
def test_F4_only_jobs_with_both_labels_are_evicted_without_a_place(
    tmp_path: Path, labels: dict[str, str]
) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(1)):
        terminal.submit(labeled(job("train", 1, 8), labels))
        terminal.ok("advance 1m")
        assert terminal.run("drain node-0 --yes").exit_code == 1
        assert len(terminal.seats()) == 1
        terminal.ok("uncordon node-0")
        terminal.ok("delete jobs --all -A")
        terminal.ok("advance 1m")
        both = {"fault-scheduling": "grace", "pod-rescheduling": "on"}
        terminal.submit(labeled(job("train", 1, 8), both))
        terminal.ok("advance 1m")
        assert "1 pod evicted" in terminal.ok("drain node-0 --yes")


def labeled(text: str, labels: dict[str, str]) -> str:
    found = "".join(f", {key}: '{value}'" for key, value in labels.items())
    return text.replace("namespace: lab", f"namespace: lab, labels: {{{found[2:]}}}", 1) if labels else text


def test_the_table_of_a_plan_at_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringwise.apps.lab.lab.time.time_ns", lambda: 1_768_032_000 * 10**9)
    terminal = Terminal(tmp_path, columns=80)
    with with_copies(tmp_path, nodes(4, leaf_size=2)):
        terminal.submit(job("short", 1, 8, minutes=30), job("first", 1, 8), job("second", 1, 8))
        terminal.submit(pod("alone", 4))
        terminal.ok("advance 10m")
        terminal.submit(job("large", 1, 4))
        terminal.ok("advance 1m")
        printed = terminal.ok("drain switch/172.0.0.0 --plan")
    same_as_golden("80/drain-plan", f"$ ringwise drain switch/172.0.0.0 --plan\n{printed}")
    page = Path(__file__).parents[2] / "docs" / "guides" / "maintenance.md"
    assert f"```\n{printed}```" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("node-9", 'node "node-9" not found'),
        ("switch/1.2.3.4", 'leaf switch "1.2.3.4" not found'),
        ("superpod/0", 'SuperPoD "0" not found; existing SuperPoDs: none'),
        ("rack/0", 'invalid target "rack/0": expected NODE, switch/ADDRESS or superpod/ID'),
    ],
)
def test_an_unknown_target_is_one_clear_line(tmp_path: Path, target: str, line: str) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(1)):
        for option in ("--plan", "--yes"):
            assert terminal.refused(f"drain {target} {option}").startswith(f"ringwise: {line}")


def test_F6_a_queue_shows_what_is_kept_for_a_drained_job(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(3)):
        terminal.submit(queue("capped", chips=16), job("train", 2, 8, queue="capped"))
        terminal.submit(job("other", 1, 4))
        terminal.ok("advance 1m")
        terminal.submit(job("next", 1, 4, queue="capped"))
        where = terminal.seats()["lab/train-worker-1"][0]
        terminal.ok(f"drain {where} --yes --force")
        terminal.ok("advance 22s")
        found = terminal.json("describe queue capped")
        assert (found["used"], found["reserved_quota"]) == ({ASCEND910: 8}, {ASCEND910: 8})
        assert found["reserved_quota_jobs"] == ["lab/train"]
        described = " ".join(terminal.ok("describe queue capped").split())
        assert "reserved 8 Ascend910 for lab/train, which lost pods, for at most 1m40s" in described
        assert "8 Ascend910, and 8 Ascend910 kept" in " ".join(terminal.ok("get queues").split())
        assert terminal.json("why lab/next")["reason"]["code"] == "queue-quota-reserved"
        terminal.ok(f"uncordon {where}")
        terminal.ok("advance 5s")
        assert terminal.json("describe queue capped")["reserved_quota"] == {}


def test_the_jobs_of_some_pods_are_those_of_the_list_of_all(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(4)) as server:
        terminal.submit(job("one", 2, 8), job("two", 1, 4), pod("alone", 1), pod("other", 1))
        terminal.submit(
            "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
            "metadata: {name: team, namespace: lab}\nspec: {minMember: 1}\n"
        )
        for name, group in (("member", "team"), ("lost", "missing")):
            note = f"annotations: {{scheduling.k8s.io/group-name: {group}}}"
            terminal.submit(pod(name, 1).replace("labels: {}", note))
        terminal.ok("advance 10s")
        objects = server.live.objects
        every = job_views(objects)
        assert {view.name: view.kind for view in every} == {
            **dict.fromkeys(("one", "two"), "vcjob"),
            **dict.fromkeys(("team", "missing"), "PodGroup"),
            **dict.fromkeys(("alone", "other"), "Pod"),
        }
        for view in every:
            assert views_of_pods(objects, view.pods[:1]) == [view]
        assert views_of_pods(objects, objects.pods) == every
        assert views_of_pods(objects, ()) == []


def test_a_pod_that_has_ended_on_the_node_delays_no_drain(tmp_path: Path) -> None:
    """The next job is evicted when the one before it runs again, not after its time."""
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(2)) as server:
        first = job("first", 1, 2).replace("minAvailable: 1", "minAvailable: 2")
        task = first[first.index("  - name: worker") :].replace("worker", "prepare")
        task = task.replace("huawei.com/Ascend910: 2", "cpu: 1")
        note = "metadata: {annotations: {ringwise.io/expected-duration: 10s}}"
        terminal.ok("cordon node-1")
        terminal.submit(first + task.replace("metadata: {labels: {}}", note), job("second", 1, 2))
        terminal.ok("advance 1m")
        prepared = terminal.json("describe pod first-prepare-0")
        assert (prepared["phase"], prepared["node"]) == ("Succeeded", "node-0")
        terminal.ok("uncordon node-1")
        before = server.live.now
        drained = terminal.run("drain node-0 --yes")
        assert drained.exit_code == 0, drained.output
        assert "not running again yet" not in drained.stderr
        assert server.live.now - before < 60 * SECOND
