"""Faults in the lab: reports of NodeD are stored, jobs are rescheduled, and a restarted lab goes on (F1)."""

from __future__ import annotations

import json
from pathlib import Path

from ringwise.apps.lab.folder import LabFolder
from ringwise.apps.lab.lab import FleetSettings, LabSettings, LiveLab
from ringwise.apps.lab.submission import submission_of
from ringwise.apps.replay import open_journal, replay
from ringwise.embed.clock import SECOND
from ringwise.manifests.bundle import read_text
from ringwise.state.model import NodeReport, Pod
from ringwise.topology.boards import shipped_catalog

SETTINGS = LabSettings(fleet=FleetSettings(4, "910-x8"), speed=None)

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: train
  labels: {fault-scheduling: grace, ring-controller.atlas: ascend-910}
spec:
  schedulerName: volcano
  minAvailable: 2
  policies: [{event: PodEvicted, action: RestartTask}]
  tasks:
  - name: worker
    replicas: 2
    template:
      metadata:
        labels: {fault-scheduling: grace, ring-controller.atlas: ascend-910}
      spec:
        restartPolicy: Never
        nodeSelector: {host-arch: huawei-arm}
        containers:
        - name: main
          image: train
          resources: {requests: {huawei.com/Ascend910: 8}, limits: {huawei.com/Ascend910: 8}}
"""


def node_info(node: str, status: str) -> str:
    info = {"NodeInfo": {"FaultDevList": [], "NodeStatus": status}, "CheckCode": ""}
    return f"""
apiVersion: v1
kind: ConfigMap
metadata: {{name: mindx-dl-nodeinfo-{node}, namespace: mindx-dl}}
data: {{NodeInfo: '{json.dumps(info)}'}}
"""


def submit(lab: LiveLab, text: str) -> None:
    submission, problems = submission_of(read_text(text.encode(), "test.yaml"))
    assert problems == []
    lab.submit(submission)


def nodes(lab: LiveLab) -> dict[str, str | None]:
    return {pod.name: pod.node for pod in lab.cluster.all(Pod) if not pod.deleting}


def test_a_report_of_noded_moves_the_job_and_the_journal_can_be_replayed(tmp_path: Path) -> None:
    lab = LiveLab(LabFolder(tmp_path), SETTINGS)
    submit(lab, JOB)
    lab.advance(10 * SECOND)
    before = nodes(lab)
    assert len(before) == 2
    bad = before["train-worker-1"] or ""
    submit(lab, node_info(bad, "UnHealthy"))
    assert lab.cluster.get(NodeReport, f"{bad}/node") is not None
    lab.advance(60 * SECOND)
    after = nodes(lab)
    assert after["train-worker-0"] == before["train-worker-0"]
    assert after["train-worker-1"] not in (None, bad)
    lab.close()
    replayed = replay(open_journal(LabFolder(tmp_path).journal), shipped_catalog())
    assert replayed.difference is None
    assert replayed.batches > 3


def test_F1_a_lab_that_restarts_while_the_pods_end_holds_their_nodes(tmp_path: Path) -> None:
    lab = LiveLab(LabFolder(tmp_path), SETTINGS)
    submit(lab, JOB)
    lab.advance(10 * SECOND)
    before = nodes(lab)
    bad = before["train-worker-1"] or ""
    submit(lab, node_info(bad, "UnHealthy"))
    lab.close()
    again = LiveLab(LabFolder(tmp_path), SETTINGS)
    again.turn()
    assert again.cluster.get(NodeReport, f"{bad}/node") is not None
    assert [pod.deleting for pod in again.cluster.all(Pod)] == [True, True]
    again.advance(60 * SECOND)
    after = nodes(again)
    assert after["train-worker-0"] == before["train-worker-0"]
    assert after["train-worker-1"] not in (None, bad)
    again.close()
