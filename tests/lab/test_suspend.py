"""`ringwise suspend`, `resume` and `requeue` in a lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.rig import Terminal, job, nodes, pod, queue, running

CLASS = """apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 100
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with running(tmp_path):
        yield Terminal(tmp_path)


def nodes_of(terminal: Terminal, name: str) -> list[str]:
    return [node for pod, (node, _) in sorted(terminal.seats().items()) if pod.startswith(f"lab/{name}-")]


def job_of(terminal: Terminal, name: str) -> tuple[str, str, int]:
    found = terminal.json(f"describe job {name}")
    return found["phase"], found["state"], found["retries"]


def on_the_last_nodes(terminal: Terminal, manifest: str) -> list[str]:
    """The job runs, and nodes that come before its own in the natural order are free."""
    terminal.submit(job("first", 2, 8))
    terminal.submit(manifest)
    terminal.ok("advance 5s")
    terminal.ok("delete job first")
    terminal.ok("advance 60s")
    return nodes_of(terminal, "train")


def suspended(terminal: Terminal, name: str = "train") -> None:
    terminal.ok(f"suspend {name} --by anna")
    terminal.ok("advance 60s")


SWITCH = job("train", 2, 8).replace(
    "namespace: lab}", "namespace: lab, labels: {tor-affinity: normal-schema}}"
)


@pytest.mark.parametrize("manifest", [job("train", 2, 8), SWITCH], ids=["gang", "leaf switches"])
def test_a_suspended_job_gives_its_chips_back_and_returns_to_its_nodes(
    terminal: Terminal, manifest: str
) -> None:
    before = on_the_last_nodes(terminal, manifest)
    assert before == ["node-2", "node-3"]
    assert terminal.ok("suspend train") == "vcjob lab/train suspended; its chips are released\n"
    terminal.ok("advance 60s")
    assert job_of(terminal, "train") == ("Aborted", "suspended", 0)
    # Its nodes are for others at once.
    terminal.submit(job("other", 4, 8))
    terminal.ok("advance 5s")
    assert len(nodes_of(terminal, "other")) == 4
    terminal.ok("delete job other")
    terminal.ok("advance 60s")
    assert terminal.ok("resume train") == "vcjob lab/train resumed; it is pending in queue default\n"
    terminal.ok("advance 10s")
    assert nodes_of(terminal, "train") == before
    assert job_of(terminal, "train") == ("Running", "scheduled", 0)


@pytest.mark.parametrize("manifest", [job("train", 2, 8), SWITCH], ids=["gang", "leaf switches"])
def test_a_node_that_is_taken_is_not_waited_for(terminal: Terminal, manifest: str) -> None:
    assert on_the_last_nodes(terminal, manifest) == ["node-2", "node-3"]
    suspended(terminal)
    terminal.submit(pod("thief", 8, node="node-2", holds=",".join(f"Ascend910-{n}" for n in range(8))))
    terminal.ok("resume train")
    terminal.ok("advance 10s")
    assert "node-2" not in nodes_of(terminal, "train")
    assert "node-3" in nodes_of(terminal, "train")


def test_its_nodes_are_known_after_a_restart(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path):
        before = on_the_last_nodes(terminal, job("train", 2, 8))
        suspended(terminal)
    with running(tmp_path):
        terminal.ok("resume train")
        terminal.ok("advance 10s")
        assert nodes_of(terminal, "train") == before


def test_it_can_be_suspended_and_resumed_without_end(terminal: Terminal) -> None:
    terminal.submit(job("train", 1, 8))
    terminal.ok("advance 5s")
    for _ in range(5):
        suspended(terminal)
        terminal.ok("resume train")
        terminal.ok("advance 10s")
        assert job_of(terminal, "train") == ("Running", "scheduled", 0)
    for _ in range(4):
        assert terminal.ok("requeue train") == "vcjob lab/train requeued in queue default\n"
        terminal.ok("advance 10s")
        assert job_of(terminal, "train") == ("Running", "scheduled", 0)


def test_what_is_told_of_it(terminal: Terminal) -> None:
    terminal.submit(job("train", 1, 8))
    terminal.ok("advance 5s")
    terminal.ok("suspend train --by anna --reason lunch")
    said = " ".join(terminal.ok("why train").split())
    assert said == (
        "lab/train: suspended it is suspended (Aborting: AbortJob was requested by anna: lunch): "
        "its pods still end; to resume it: ringwise resume lab/train"
    )
    terminal.ok("advance 60s")
    said = " ".join(terminal.ok("why train").split())
    assert "(Aborted: AbortJob was requested by anna: lunch): it uses no chips; " in said
    assert terminal.json("why train")["state"] == "suspended"
    assert [one["name"] for one in terminal.json("get jobs --state suspended")["jobs"]] == ["train"]
    assert " Suspended " in terminal.ok("get jobs")
    terminal.ok("resume train --by bert")
    terminal.ok("advance 10s")
    story = terminal.json("why train --history")
    told = [(entry["kind"], entry["message"]) for entry in story["entries"]]
    assert ("suspended", "Aborted: CommandIssued: AbortJob was requested by anna: lunch") in told
    again = "its pods are created again when it is admitted: CommandIssued: ResumeJob was requested by bert"
    assert ("restart", again) in told
    # The time for which it was suspended is not a time for which it waited.
    assert terminal.ok("why train --history").startswith("lab/train: pending for 0s")


def test_top_and_the_events_say_since_when_a_resumed_job_is_pending(terminal: Terminal) -> None:
    terminal.submit(job("train", 1, 8))
    terminal.ok("advance 5m")
    suspended(terminal)
    terminal.submit(job("other", 4, 8))
    terminal.ok("advance 5m")
    terminal.ok("resume train")
    terminal.ok("advance 2m")
    assert "lab/train is pending for 2m:" in terminal.ok("top --once")
    assert terminal.ok("events train").startswith("lab/train: pending for 2m, pending now")


def test_priority_changes_in_place(terminal: Terminal) -> None:
    terminal.submit(CLASS, job("train", 1, 8))
    terminal.ok("advance 5s")
    seats = terminal.seats()
    done = terminal.json("requeue train --priority urgent")
    assert (done["queue"], done["priority_class"]) == (None, "urgent")
    assert done["message"] == "vcjob lab/train has priority class urgent now"
    terminal.ok("advance 10s")
    assert terminal.seats() == seats
    assert terminal.json("describe job train")["priority"] == 100
    assert terminal.ok("requeue train --priority urgent").endswith("has priority class urgent already\n")


def test_another_queue_while_it_waits_or_is_suspended(terminal: Terminal) -> None:
    terminal.submit(queue("full", chips=0), queue("free"), job("waits", 1, 8, queue="full"))
    terminal.submit(job("train", 1, 8))
    terminal.ok("advance 5s")
    assert job_of(terminal, "waits")[1] == "pending"
    assert terminal.ok("requeue waits --queue free") == "vcjob lab/waits has queue free now\n"
    terminal.ok("advance 5s")
    assert job_of(terminal, "waits") == ("Running", "scheduled", 0)
    assert terminal.json("describe job waits")["queue"] == "free"
    suspended(terminal)
    said = terminal.ok("requeue train --queue full")
    assert said == "vcjob lab/train has queue full now and stays suspended\n"
    terminal.ok("resume train")
    terminal.ok("advance 5s")
    assert job_of(terminal, "train")[1] == "pending"
    assert terminal.json("why train")["queue"]["name"] == "full"
    # Until its pods are gone, a deleted job is shown in the queue for which they count.
    for template in ("{.queue}", "{.jobs[0].queue}"):
        assert terminal.ok(f"get job waits -o jsonpath={template}") == "free"
    terminal.ok("delete job waits")
    [deleted] = [one for one in terminal.json("get jobs")["jobs"] if one["name"] == "waits"]
    assert (deleted["phase"], deleted["queue"]) == ("Terminating", "free")


def test_what_cannot_be_done_is_refused_with_what_can(terminal: Terminal) -> None:
    terminal.submit(
        *(job("train", 1, 8), job("done", 1, 1, minutes=1), job("huge", 9, 8)),
        *(job("away", 1, 1), job("wrong", 1, 1).replace("minAvailable: 1", "minAvailable: 3")),
        pod("alone", 1),
        queue("closed"),
        CLASS,
    )
    terminal.ok("advance 2m")
    suspended(terminal, "away")
    for command, said in (
        ("suspend trian", 'job "trian" not found; did you mean "train"?'),
        ("suspend other/train", 'job "other/train" not found; did you mean "lab/train"?'),
        ("suspend away", "vcjob lab/away is already suspended; to resume it: ringwise resume lab/away"),
        (
            "suspend done",
            "vcjob lab/done is Completed: a finished job cannot be suspended; submit it again",
        ),
        ("resume done", "vcjob lab/done is Completed: a finished job cannot be resumed; submit it again"),
        (
            "requeue done --priority urgent",
            "vcjob lab/done is Completed: a finished job cannot be requeued",
        ),
        ("resume train", "vcjob lab/train is not suspended: it is Running"),
        (
            "suspend alone",
            "bare pod lab/alone cannot be suspended, only vcjobs, Jobs of Kubernetes and AscendJobs",
        ),
        (
            "suspend wrong",
            "vcjob lab/wrong cannot run as it is: job 'minAvailable' should not be greater than",
        ),
        (
            "requeue away",
            "vcjob lab/away is suspended; to queue it again: ringwise resume lab/away",
        ),
        ("requeue huge", "vcjob lab/huge is already pending in queue default; use --queue or --priority"),
        ("requeue train --queue closd", 'queue "closd" not found; must be one of closed'),
        (
            "requeue train --queue closed",
            "vcjob lab/train is Running: only a job that is suspended, or pending",
        ),
        (
            "requeue huge --priority urgnt",
            'priority class "urgnt" not found; must be one of',
        ),
        ("requeue huge --queue ''", "the name of a job, queue or priority class must not be empty"),
    ):
        assert terminal.refused(command).startswith(f"ringwise: {said}"), command


def blocks(name: str, pods: int) -> str:
    notes = '{sp-block: "32", huawei.com/schedule_policy: chip2-node16-sp}'
    manifest = job(name, pods, 16).replace("namespace: lab}", f"namespace: lab, annotations: {notes}}}")
    return manifest.replace("labels: {}", f"annotations: {notes}")


def test_blocks_return_to_their_superpods_and_take_others_where_these_are_full(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(12, board="a3-x16-superpod", superpod_size=6)):
        terminal.submit(blocks("first", 2))
        terminal.submit(blocks("train", 4))
        terminal.ok("advance 5s")
        before = nodes_of(terminal, "train")
        terminal.ok("delete job first")
        terminal.ok("advance 60s")
        suspended(terminal)
        terminal.ok("resume train")
        terminal.ok("advance 5s")
        assert nodes_of(terminal, "train") == before
        suspended(terminal)
        terminal.submit(blocks("thief", 8))
        terminal.ok("advance 5s")
        assert set(before) < set(nodes_of(terminal, "thief"))
        terminal.ok("resume train")
        terminal.ok("advance 5s")
        assert len(set(nodes_of(terminal, "train"))) == 4
