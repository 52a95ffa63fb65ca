"""The journal of a scheduler on a cluster: the history of a job over a crash, and repeated decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.apps.job_history import UnknownHistoryError, history_of
from ringwise.apps.journal.format import open_journal
from ringwise.apps.replay import replay
from ringwise.cli.commands import plugin
from ringwise.manifests.settings.boards import shipped_catalog
from tests.cluster.cluster import Cluster, Component, node_of
from tests.cluster.objects import node_report, nodes, vcjob

pytestmark = pytest.mark.cluster

ALL = tuple(range(8))


def started(cluster: Cluster, journal: Path) -> Component:
    component = cluster.start("scheduler", f"--journal={journal}")
    cluster.wait(lambda: component.ready and component.leads, "the scheduler is ready and leads")
    return component


def kinds(cluster: Cluster, journal: Path) -> list[str]:
    try:
        return [entry.kind for entry in history_of(f"{cluster.namespace}/train", [journal]).history.entries]
    except UnknownHistoryError:
        return []


def live_story(cluster: Cluster) -> dict[str, Any]:
    job, config = f"{cluster.namespace}/train", f"--kubeconfig={cluster.admin_config}"
    result = CliRunner().invoke(plugin, ["why", job, "--history", "-o", "json", config])
    assert result.exit_code == 0, result.output
    story: dict[str, Any] = json.loads(result.stdout)
    return story


def test_the_story_is_complete_after_the_scheduler_was_killed(cluster: Cluster, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    cluster.apply(nodes(3))
    cluster.apply([node_report(f"node-{number}", ALL, index=number) for number in range(1, 4)])
    first = started(cluster, journal)
    cluster.run("controller")
    labels = {"fault-scheduling": "grace", "pod-rescheduling": "on"}
    cluster.apply([vcjob("train", 2, 8, labels=labels)])
    before = cluster.wait_running("train", 2)
    cluster.wait(lambda: "running" in kinds(cluster, journal), "the journal has the start of the job")
    cluster.crash(first)
    second = started(cluster, journal)
    bad = {one["metadata"]["name"]: node_of(one) for one in before}["train-work-1"]
    cluster.apply([node_report(bad, ALL[1:], unhealthy=[0])])
    cluster.wait(
        lambda: "recovered" in kinds(cluster, journal), "the journal has the end of the rescheduling"
    )
    cluster.wait_running("train", 2)
    cluster.wait(lambda: kinds(cluster, journal)[-1] == "running", "the journal has the second start")
    assert second.metric("ringwise_journal_dropped_turns_total") == 0

    told = history_of(f"{cluster.namespace}/train", [journal]).history
    found = [entry.kind for entry in told.entries if entry.kind != "pending"]
    assert found == [
        "submitted",
        "scheduled",
        "running",
        "scheduler",
        "fault",
        "restart",
        "deleted",
        "gone",
        "scheduled",
        "recovered",
        "running",
    ]
    assert (told.faults, told.moved) == (1, 1)
    answer = replay(open_journal(journal), shipped_catalog())
    assert answer.difference is None
    assert answer.note is None

    # The Events tell the same, without the journal.
    def in_events() -> bool:
        entries = live_story(cluster)["entries"]
        return [one["kind"] for one in entries].count("scheduled") == 2 and "recovered" in {
            one["kind"] for one in entries
        }

    cluster.wait(in_events, "the events are written")
    story = live_story(cluster)
    assert (story["faults"], story["moved_pods"]) == (1, 1)
    moves = [pod for entry in story["entries"] if entry["kind"] == "scheduled" for pod in entry["pods"]]
    assert [(pod["name"], pod["from"]) for pod in moves if pod["from"]] == [("train-work-1", bad)]
