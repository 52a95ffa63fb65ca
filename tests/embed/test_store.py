"""Saved objects are loaded, damaged files give an error, and a killed process loses no save."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from ringwise.controller.machine import Controller
from ringwise.durations import SECOND
from ringwise.embed.clock import VirtualClock
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.fleets import make_fleet
from ringwise.embed.loop import EmbeddedLoop
from ringwise.embed.objects import ObjectTable
from ringwise.embed.store import Store, StoreError
from ringwise.state.model import Pod, PriorityClass, Queue
from ringwise.state.vcjob import VcJob
from tests.builders.values import job_of, pod, task_of
from tests.embed.first_fit import FirstFit, lab_of


def contents(table: ObjectTable) -> list[tuple[int, str, str, object]]:
    return sorted(
        ((c.version, c.kind, c.key, c.object) for c in table.all()), key=lambda entry: (entry[0], entry[1])
    )


def reopened(path: Path) -> tuple[ObjectTable, int]:
    store = Store(path)
    loaded = store.load()
    store.close()
    return loaded


def test_all_objects_are_loaded_and_the_lab_continues(tmp_path: Path) -> None:
    lab = lab_of(2)
    topology = make_fleet(2, leaf_size=1).topology
    assert topology is not None
    lab.cluster.submit_all([topology, Queue("blue", weight=3), PriorityClass("high", 7)])
    annotations = {"ringwise.io/expected-duration": "60s"}
    lab.cluster.submit(
        job_of(task_of(annotations=annotations), plugins={"env": (), "svc": ()}, ttl_seconds=5)
    )
    lab.run_until(10 * SECOND)
    store = Store(tmp_path / "lab")
    store.save(lab.cluster.table, lab.cluster.now)
    store.close()

    table, now = reopened(tmp_path / "lab")
    assert now == lab.cluster.now
    assert table.version == lab.cluster.table.version
    assert contents(table) == contents(lab.cluster.table)
    for kind in ("Node", "Pod", "VcJob"):
        assert list(table.kind(kind)) == list(lab.cluster.table.kind(kind))

    again = EmbeddedLoop(EmbeddedCluster(now=now, table=table), FirstFit(), Controller(), VirtualClock(now))
    for one in (lab, again):
        one.run_until(65 * SECOND)
        job = one.cluster.get(VcJob, "default/train")
        assert job is not None
        assert job.phase == "Completed"
        one.run_until(80 * SECOND)
        assert one.cluster.get(VcJob, "default/train") is None
        assert one.cluster.all(Pod) == []


def test_a_save_writes_only_changes_and_deletions_persist(tmp_path: Path) -> None:
    path = tmp_path / "lab"
    store = Store(path)
    table, _ = store.load()
    cluster = EmbeddedCluster(table=table)
    cluster.submit_all([Queue("a"), Queue("b"), Queue("c")])
    assert store.save(table, 1) == 3
    assert store.save(table, 2) == 0
    cluster.delete("Queue", "a")
    cluster.submit(Queue("b", weight=9))
    cluster.delete("Queue", "c")
    cluster.submit(Queue("c"))
    cluster.submit(Queue("a"))
    assert store.save(table, 3) == 3
    store.close()
    loaded, now = reopened(path)
    assert now == 3
    assert list(loaded.kind("Queue")) == list(table.kind("Queue"))


def test_a_store_behind_the_history_writes_everything(tmp_path: Path) -> None:
    store = Store(tmp_path / "lab")
    table = ObjectTable(history=2)
    cluster = EmbeddedCluster(table=table)
    cluster.submit(Queue("old"))
    store.save(table, 0)
    cluster.delete("Queue", "old")
    cluster.submit_all(Queue(f"q{n}") for n in range(9))
    assert store.save(table, 1) == 9
    store.close()
    assert contents(reopened(tmp_path / "lab")[0]) == contents(table)


def test_loaded_pods_of_one_template_share_one_class(tmp_path: Path) -> None:
    lab = lab_of(1)
    lab.cluster.submit(job_of(task_of(replicas=3)))
    lab.run_until(5 * SECOND)
    store = Store(tmp_path / "lab")
    store.save(lab.cluster.table, 0)
    store.close()
    pods = [pod for pod in reopened(tmp_path / "lab")[0].kind("Pod") if isinstance(pod, Pod)]
    assert len({id(pod.cls) for pod in pods}) == 1
    assert len(pods) == 3


def test_the_timeline_of_a_pod_has_its_names_of_format_1(tmp_path: Path) -> None:
    path = tmp_path / "lab.db"
    lab = lab_of(1)
    lab.cluster.submit(pod("p", uid=""))
    lab.run_until(10 * SECOND)
    lab.cluster.delete("Pod", "default/p")
    store = Store(path)
    store.save(lab.cluster.table, lab.cluster.now)
    store.close()
    with closing(sqlite3.connect(path)) as database:
        ((body,),) = database.execute("SELECT body FROM object WHERE kind = 'Life'").fetchall()
    assert json.loads(body) == {"bound": SECOND, "started": 3 * SECOND, "asked_to_go": 10 * SECOND}


def damage_header(path: Path) -> None:
    path.write_bytes(b"this is not a database" * 100)


def damage_body(path: Path) -> None:
    with sqlite3.connect(path) as base:
        base.execute("UPDATE object SET body = '{'")
    base.close()


def damage_kind(path: Path) -> None:
    with sqlite3.connect(path) as base:
        base.execute("UPDATE object SET kind = 'Dragon'")
    base.close()


def damage_table(path: Path) -> None:
    with sqlite3.connect(path) as base:
        base.execute("DROP TABLE lab")
    base.close()


def other_version(path: Path) -> None:
    with sqlite3.connect(path) as base:
        base.execute("PRAGMA user_version = 99")
    base.close()


def other_program(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE recipes (name TEXT)")
    base.close()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (damage_header, "is damaged or not a lab file"),
        (damage_body, "Queue a: "),
        (damage_kind, "unknown kind Dragon"),
        (damage_table, "no such table: lab"),
        (other_version, "unsupported version 99: this Ringwise reads version 1"),
        (other_program, "is a database of another program"),
    ],
)
def test_an_unusable_file_is_rejected_with_path_reason_and_fix(
    tmp_path: Path, damage: object, why: str
) -> None:
    path = tmp_path / "lab"
    store = Store(path)
    table, _ = store.load()
    EmbeddedCluster(table=table).submit(Queue("a"))
    store.save(table, 0)
    store.close()
    assert callable(damage)
    damage(path)
    content = path.read_bytes()
    with pytest.raises(StoreError, match=why) as refused:
        reopened(path)
    assert path.read_bytes() == content
    assert str(path) in str(refused.value)
    assert ";" in str(refused.value)


def test_the_error_names_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path / "nowhere" / "lab")


def test_a_file_in_use_is_rejected(tmp_path: Path) -> None:
    store = Store(tmp_path / "lab")
    store.save(ObjectTable(), 1)
    with pytest.raises(StoreError, match="is used by another lab"):
        Store(tmp_path / "lab")
    store.close()
    Store(tmp_path / "lab").close()


@pytest.mark.full
@pytest.mark.process
def test_a_killed_process_leaves_a_complete_save(tmp_path: Path) -> None:
    """Pairs of queues are saved together; after a kill at any moment every pair is complete."""
    path = tmp_path / "lab"
    program = textwrap.dedent(
        """
        import sys
        from ringwise.embed.cluster import EmbeddedCluster
        from ringwise.embed.store import Store
        from ringwise.state.model import Queue
        store = Store(sys.argv[1])
        table, now = store.load()
        cluster = EmbeddedCluster(table=table)
        number = now
        while True:
            number += 1
            for side in ("left", "right"):
                cluster.submit(Queue(f"{side}-{number % 50}", weight=number))
            store.save(table, number)
            print(number, flush=True)
        """
    )
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(20)][-1]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        table, now = reopened(path)
        assert now >= acknowledged
        weights = {queue.name: queue.weight for queue in table.kind("Queue") if isinstance(queue, Queue)}
        assert max(weights.values()) == now
        for name, weight in weights.items():
            side, _, number = name.partition("-")
            assert weights[("right-" if side == "left" else "left-") + number] == weight
