"""`kubectl ringwise why JOB --history`: the history of a job, from its Events and from a journal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from ringwise.apps.kube_scheduler import ComponentOptions, serve
from ringwise.cli.commands import plugin
from ringwise.durations import time_text
from ringwise.kubeclient.config import direct
from ringwise.manifests.settings.boards import shipped_catalog
from tests.deploy.test_live_drain import on_cluster, owned, vcjob
from tests.device.test_commands import kubeconfig
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import GROUPS, JOBS, NODES, PODS, QUEUES, group, node, pod, until

EVENTS = "/api/v1/events"
#: 2026-01-10T08:00:00Z
START = 1_768_032_000


def event(
    api: FakeApiServer, seconds: float, kind: str, name: str, reason: str, message: str, uid: str = ""
) -> None:
    """As the scheduler writes it: the nanoseconds are in its name."""
    now = int((START + seconds) * 1_000_000_000)
    stamp = time_text(now)
    api.put(
        EVENTS,
        {
            "metadata": {"name": f"{name}.{now:x}0abc", "namespace": "default"},
            "involvedObject": {
                "kind": kind,
                "namespace": "default",
                "name": name,
                "uid": uid or f"uid-{name}",
            },
            "reason": reason,
            "message": message,
            "source": {"component": "ringwise"},
            "firstTimestamp": stamp,
        },
    )


def moved(api: FakeApiServer) -> None:
    """A gang that waited, lost a pod to a fault, and got another node; written in another order."""
    vcjob(api)
    gang = "train-uid-train"
    for one in (*api.all(GROUPS), *api.all(JOBS), *api.all(PODS)):
        one["metadata"]["creationTimestamp"] = "2026-01-10T08:00:00Z"
    recovered = "2 pods have nodes again, 2s after the last fault"
    event(api, 92.9, "PodGroup", gang, "Recovered", recovered)
    event(
        api,
        92.5,
        "Pod",
        "train-worker-0",
        "Scheduled",
        "Successfully assigned default/train-worker-0 to node-3",
    )
    event(api, 1.0, "PodGroup", gang, "Unschedulable", "2 pods need 16 chips. What would help now: wait")
    event(api, 2.0, "PodGroup", gang, "Unschedulable", "2 pods need 16 chips. What would help now: less")
    for index in (0, 1):
        where = f"Successfully assigned default/train-worker-{index} to node-{index + 1}"
        event(api, 30.2 + index / 10, "Pod", f"train-worker-{index}", "Scheduled", where, f"old-{index}")
    event(api, 90.1, "PodGroup", gang, "FaultDetected", "train-worker-0: Ascend910-3 of node-1 is unhealthy")
    event(api, 90.2, "PodGroup", gang, "Rescheduling", "pod level: train-worker-0 is restarted")
    why = "Pod is deleted: Ascend910-3 of node-1 is unhealthy"
    event(api, 90.3, "Pod", "train-worker-0", "Rescheduled", why, "old-0")
    # Of an earlier job of the same name, which had other pods.
    where = "Successfully assigned default/train-worker-0 to node-9"
    event(api, -300, "Pod", "train-worker-0", "Scheduled", where, "earlier-0")
    event(api, -200, "Job", "train", "ExecuteAction", "Start to execute action RestartJob", "earlier")
    event(api, -100, "Pod", "train-worker-0", "Rescheduled", "Pod is deleted: node-9 is gone", "earlier-0")
    # Of other jobs, and of no use.
    event(api, 50, "PodGroup", "other", "FaultDetected", "other-0: node-9 is gone")
    event(api, 50, "Pod", "train-worker-1", "Pulled", "Container image is present")


def test_events_tell_what_moved_where_and_how_long_it_took(tmp_path: Path) -> None:
    (answered, printed), _ = on_cluster(
        tmp_path, moved, "why train --history -o json", "why default/train --history"
    )
    assert answered.exit_code == 0, answered.output
    history = json.loads(answered.stdout)
    entries = [(entry["kind"], entry["message"], entry["duration_seconds"]) for entry in history["entries"]]
    assert entries == [
        ("submitted", "submitted", None),
        ("pending", "2 pods need 16 chips", None),
        ("scheduled", "train-worker-0, train-worker-1 on node-1, node-2", 30.3),
        ("fault", "train-worker-0: Ascend910-3 of node-1 is unhealthy", None),
        ("restart", "pod level: train-worker-0 is restarted", None),
        ("deleted", "train-worker-0 on node-1: Ascend910-3 of node-1 is unhealthy", None),
        ("scheduled", "moved: train-worker-0 from node-1 to node-3", 2.2),
        ("recovered", "2 pods have nodes again, 2s after the last fault", None),
    ]
    assert (history["faults"], history["moved_pods"]) == (1, 1)
    assert "kept" not in printed.stdout
    assert "--journal FILE" in printed.stderr
    assert "+1m32s" in printed.stdout


def test_an_event_of_the_job_counts_although_the_clock_of_the_scheduler_is_behind(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        vcjob(api)
        for one in (*api.all(GROUPS), *api.all(JOBS), *api.all(PODS)):
            one["metadata"]["creationTimestamp"] = "2026-01-10T08:00:00Z"
        (gang,) = (one["metadata"] for one in api.all(GROUPS))
        for at, uid, need in ((-1.5, gang["uid"], "2 pods"), (-1.4, "earlier", "9 pods")):
            text = f"{need} need 16 chips. What would help now: wait"
            event(api, at, "PodGroup", gang["name"], "Unschedulable", text, uid)

    (answered,), _ = on_cluster(tmp_path, prepare, "why train --history -o json")
    entries = [entry["message"] for entry in json.loads(answered.stdout)["entries"]]
    assert sorted(entries) == ["2 pods need 16 chips", "submitted"]


def test_events_without_a_job_are_those_of_all_jobs(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        moved(api)
        api.put(GROUPS, group("other", 1))
        for one in api.all(GROUPS):
            one["metadata"]["creationTimestamp"] = "2026-01-10T08:00:00Z"

    (answered, of_job, printed, elsewhere), _ = on_cluster(
        tmp_path, prepare, "events -o json", "events train -o json", "get events", "get events -n none"
    )
    assert answered.exit_code == 0, answered.output
    events = json.loads(answered.stdout)["events"]
    own = [one["message"] for one in json.loads(of_job.stdout)["entries"]]
    assert [one["message"] for one in events if one["job"] == "train"] == own
    (fault,) = [one for one in events if one["job"] == "other" and one["kind"] == "fault"]
    assert (fault["type"], fault["code"], fault["message"]) == (
        "Warning", "FaultDetected", "other-0: node-9 is gone"
    )  # fmt: skip
    assert [one["nanoseconds"] for one in events] == sorted(one["nanoseconds"] for one in events)
    assert "default/other" in printed.stdout
    assert "from the Events of the cluster" in printed.stderr
    assert elsewhere.stdout == "there are no events in namespace none\n"


def test_a_job_that_is_not_there_and_events_that_may_not_be_read(tmp_path: Path) -> None:
    (answered,), _ = on_cluster(tmp_path, moved, "why trian --history")
    assert answered.exit_code == 2
    assert (
        answered.stderr
        == 'ringwise: the cluster: job "default/trian" not found; did you mean "default/train"?\n'
    )

    def forbidden(api: FakeApiServer) -> None:
        moved(api)
        api.fault("/events", status=403, times=10)

    (answered,), _ = on_cluster(tmp_path, forbidden, "why train --history")
    assert answered.exit_code == 2
    assert "you need the verb list on events in namespace default" in answered.stderr


async def test_the_scheduler_s_own_events_and_its_journal_tell_the_same_after_a_restart(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "journal.jsonl"
    results: list[Result] = []
    async with FakeApiServer() as api:
        api.put(NODES, node("node-1"))
        api.put(QUEUES, {"metadata": {"name": "default"}})
        api.put(GROUPS, group("gang", 1))
        api.put(PODS, owned(pod("gang-0", 8, group="gang")))
        for _ in range(2):
            stop = asyncio.Event()
            options = ComponentOptions(metrics_address="", health_address="", journal=journal)
            task = asyncio.create_task(
                serve(options, direct(api.url), None, shipped_catalog(()), _ignore, stop)
            )
            await until(lambda: api.get(PODS, "default/gang-0")["spec"].get("nodeName"))
            await until(lambda: any(one["reason"] == "Scheduled" for one in api.all(EVENTS)))
            stop.set()
            await task
        config = kubeconfig(tmp_path, api.url)
        for more in ([], ["--journal", str(journal)]):
            arguments = ["why", "gang", "--history", "-o", "json", "--kubeconfig", config, *more]
            results.append(await asyncio.to_thread(CliRunner().invoke, plugin, arguments))
    for result in results:
        assert result.exit_code == 0, result.output
        entries = json.loads(result.stdout)["entries"]
        placed = [entry for entry in entries if entry["kind"] == "scheduled"]
        assert [(step["name"], step["to"]) for step in placed[0]["pods"]] == [("gang-0", "node-1")]
        assert entries[0]["kind"] == "submitted"


def _ignore(line: dict[str, Any]) -> None:
    """Only shadow mode reports."""
