"""Number 13: mistakes that would be read as if they were not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ringwise.manifests.bundle import read_bundle
from tests.builders.objects import hyper_node, node, pod, pod_group, pod_spec, vcjob


def notes(*objects: dict[str, Any]) -> list[str]:
    bundle = read_bundle(["-"], stdin="\n---\n".join(json.dumps(one) for one in objects).encode())
    assert bundle.errors == []
    return [note.removeprefix("stdin: document 1: ") for note in bundle.notes]


def job(**task: Any) -> dict[str, Any]:
    made = vcjob("job", [("worker", 1, pod_spec(1))])
    made["spec"]["tasks"][0].update(task)
    return made


def topology(**more: Any) -> dict[str, Any]:
    return {"networkTopology": {"mode": "hard", **more}}


def annotated(made: dict[str, Any], key: str, value: str) -> dict[str, Any]:
    meta = {**made["metadata"], "annotations": {f"volcano.sh/network-topology-{key}": value}}
    return {**made, "metadata": meta}


def test_right_manifests_have_no_notes() -> None:
    whole = job(
        policies=[{"event": "PodFailed", "action": "RestartJob"}],
        partitionPolicy={
            "totalPartitions": 1,
            "partitionSize": 1,
            "minPartitions": 1,
            **topology(highestTierAllowed=1),
        },
    )
    group = pod_group("group", 1)
    group["spec"] |= topology(highestTierName="leaf")
    group["spec"]["subGroupPolicy"] = [
        {
            **topology(),
            "name": "all",
            "labelSelector": {},
            "matchLabelKeys": ["a"],
            "subGroupSize": 1,
            "minSubGroups": 1,
        }
    ]
    near = hyper_node("s1", {"labelMatch": {"matchLabels": {"a": "b"}}}, tierName="leaf")
    alone = pod("pod", pod_spec(1, volumes=[], restartPolicy="Never"))
    assert notes(whole, alone, group, near) == []


@pytest.mark.parametrize(
    ("wanted", "note"),
    [
        (job(replcas=4), 'spec.tasks[0].replcas: unknown field, not read; did you mean "replicas"?'),
        (
            {**job(), "spec": {**job()["spec"], "minAvailble": 2}},
            'spec.minAvailble: unknown field, not read; did you mean "minAvailable"?',
        ),
        (
            pod("pod", {**pod_spec(1), "nodeSelecter": {"a": "b"}}),
            'spec.nodeSelecter: unknown field, not read; did you mean "nodeSelector"?',
        ),
        (
            {**job(), "spec": {**job()["spec"], **topology(highestTierAlowed=1)}},
            "spec.networkTopology.highestTierAlowed: unknown field, not read; did you mean "
            '"highestTierAllowed"?',
        ),
        (
            job(partitionPolicy={"totalPartitions": 1, "partitionSize": 1, "minPartition": 1}),
            "spec.tasks[0].partitionPolicy.minPartition: unknown field, not read; did you mean "
            '"minPartitions"?',
        ),
        (
            {**pod_group("g", 1), "spec": {"minMember": 1, "subGroupPolicy": [topology(tier=1)]}},
            "spec.subGroupPolicy[0].networkTopology.tier: unknown field, not read",
        ),
        (
            hyper_node("s1", {"labelMatch": {"matchLabel": {"a": "b"}}}),
            "spec.members[0].selector.labelMatch.matchLabel: unknown field, not read; did you mean "
            '"matchLabels"?',
        ),
        (
            hyper_node("s1", {"exactMatch": {"name": "n1"}}, tiername="leaf"),
            'spec.tiername: unknown field, not read; did you mean "tierName"?',
        ),
        (
            annotated(pod("pod", pod_spec(1)), "mode", "hrad"),
            "metadata.annotations[volcano.sh/network-topology-mode]: must be hard or soft, got "
            '"hrad"; hard is used; did you mean "hard"?',
        ),
        (
            annotated(job(), "highest-tier", "1"),
            "metadata.annotations[volcano.sh/network-topology-highest-tier]: has no effect here: write it to "
            "spec.networkTopology",
        ),
        (
            pod("My_Pod", pod_spec(1)),
            "metadata.name: the API server refuses \"My_Pod\": lower-case letters, digits, '-' and '.' "
            'are allowed; for example "my-pod"',
        ),
    ],
)
def test_a_mistake_is_a_note_with_the_nearest_word(wanted: dict[str, Any], note: str) -> None:
    assert notes(wanted) == [note]


def test_what_the_api_server_stored_is_not_looked_at() -> None:
    stored = job(replcas=4)
    stored["metadata"]["uid"] = "1"
    assert notes(stored) == []


def test_an_unknown_priority_class_is_told_where_the_cluster_is_known() -> None:
    wanted = vcjob("job", [("worker", 1, pod_spec(1))], priorityClassName="hihg")
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 10,
    }
    assert notes(wanted) == []
    assert notes(wanted, high, node("n1")) == [
        'priorityClassName: PriorityClass "hihg" not found; its priority is 0; did you mean "high"?'
    ]
