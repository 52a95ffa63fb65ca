"""Limits of sizes at `apply`: of a new object, and of an existing one only where that field changes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from ringwise.apps.admission.rules import ClusterFacts
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.limits import (
    DEPENDENCIES,
    EVENTS,
    LABELS,
    PLUGINS,
    POLICIES,
    TASKS,
    TERMS,
    TOLERATIONS,
)
from tests.admission.reviews import answer, container, group, pod, review, vcjob
from tests.examples import sample

Object = dict[str, Any]


def respond(
    new: Object, old: Object | None = None, *, sub_resource: str = "", operation: str = ""
) -> dict[str, Any]:
    body = json.loads(review(new, operation or ("UPDATE" if old is not None else "CREATE"), old))
    body["request"]["subResource"] = sub_resource
    answered = answer(json.dumps(body).encode(), ClusterFacts(shipped_catalog()))
    assert answered is not None
    return dict(answered["response"])


def message(response: dict[str, Any]) -> str:
    assert response["allowed"] is False
    return str(response["status"]["message"])


def affinity(terms: int, label: str = "zone") -> Object:
    term = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * terms}}
    return {"nodeAffinity": required}


def tasks(count: int, *, chained: int = 0) -> list[Object]:
    template = {"spec": {"containers": [container(8)]}}
    return [
        {
            "name": f"t{number}",
            "replicas": 1,
            "template": template,
            **({"dependsOn": {"name": [f"t{one}" for one in range(chained)]}} if chained else {}),
        }
        for number in range(count)
    ]


def with_affinity(made: Object, *path: str, terms: int = TERMS.most + 1, label: str = "zone") -> Object:
    changed = copy.deepcopy(made)
    spec = changed["spec"]
    for part in path:
        spec = spec[int(part)] if isinstance(spec, list) else spec[part]
    spec["affinity"] = affinity(terms, label)
    return changed


def deployment(scheduler: str = "volcano", **meta: Any) -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(8, scheduler=scheduler)["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team", **meta},
        "spec": {"replicas": 1, "template": template},
    }


def ascend_job() -> Object:
    template = {"spec": {"schedulerName": "volcano", "containers": [container(8, "ascend")]}}
    return {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": {"name": "big", "namespace": "team", "labels": {"framework": "pytorch"}},
        "spec": {
            "schedulerName": "volcano",
            "replicaSpecs": {"Master": {"replicas": 1, "template": template}},
        },
    }


TEMPLATE = ("template", "spec")
MANY_LABELS = {f"l{number}": "" for number in range(LABELS.most + 1)}
REQUIRED = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
#: An oversized object, its field, and what it has.
OVERSIZED: dict[str, tuple[Object, str, str]] = {
    "tasks": (vcjob(tasks=tasks(8_000)), "spec.tasks", f"has 8,000 tasks; at most {TASKS.most:,}"),
    "dependencies": (
        vcjob(tasks=tasks(100, chained=90)),
        "spec.tasks.dependsOn",
        f"has 9,000 dependencies of all tasks (dependsOn); at most {DEPENDENCIES.most:,}",
    ),
    "policies": (
        vcjob(policies=[{"event": "PodFailed", "action": "AbortJob"}] * 65),
        "spec.policies",
        f"has 65 policies of the job or of one task; at most {POLICIES.most}",
    ),
    "events": (
        vcjob(policies=[{"events": [f"E{number}" for number in range(65)], "action": "AbortJob"}]),
        "spec.policies[0].events",
        f"has 65 events of one policy; at most {EVENTS.most}",
    ),
    "arguments": (
        vcjob(plugins={"ssh": [f"--x{number}" for number in range(80_000)]}),
        "spec.plugins",
        f"has 80,001 job plugins and their arguments; at most {PLUGINS.most}",
    ),
    "labels of a vcjob": (
        vcjob(metadata={"labels": MANY_LABELS}),
        "metadata.labels",
        f"has 1,025 labels; at most {LABELS.most:,}",
    ),
    "terms of a vcjob": (
        with_affinity(vcjob(), "tasks", "0", *TEMPLATE),
        f"spec.tasks[0].template.spec.{REQUIRED}",
        "has 257 terms",
    ),
    "labels of a template": (
        vcjob(
            tasks=[
                {**tasks(1)[0], "template": {**tasks(1)[0]["template"], "metadata": {"labels": MANY_LABELS}}}
            ]
        ),
        "spec.tasks[0].template.metadata.labels",
        "has 1,025 labels",
    ),
    "a name": (
        vcjob(priorityClassName="p" * 1_400),
        "spec.priorityClassName",
        f'Invalid value: "{"p" * 60}..." (1400 characters): must be a name of at most 253 characters',
    ),
    "terms of a pod": (with_affinity(pod(8)), f"spec.{REQUIRED}", "has 257 terms"),
    "terms of a pod of a megabyte": (
        with_affinity(pod(8), terms=14_000),
        f"spec.{REQUIRED}",
        f"has 14,000 terms of one kind of node or pod affinity; at most {TERMS.most}",
    ),
    "tasks of a PodGroup": (
        {**group(), "spec": {"minMember": 1, "minTaskMember": {f"t{one}": 1 for one in range(2_000)}}},
        "spec.minTaskMember",
        "has 2,000 tasks",
    ),
    "a Deployment": (
        with_affinity(deployment(), *TEMPLATE),
        f"spec.template.spec.{REQUIRED}",
        "has 257 terms",
    ),
    "an AscendJob": (
        with_affinity(ascend_job(), "replicaSpecs", "Master", *TEMPLATE),
        f"spec.replicaSpecs.Master.template.spec.{REQUIRED}",
        "has 257 terms",
    ),
}


@pytest.mark.parametrize(("made", "field", "number"), sample([*OVERSIZED.values()], 2))
def test_an_oversized_object_is_refused_with_one_error(made: Object, field: str, number: str) -> None:
    """It names the field, the number and the limit, also where the check of the job would take too long."""
    said = message(respond(made))
    assert f"{field}: {number}" in said
    assert "also: " not in said


@pytest.mark.parametrize(("made", "field", "number"), sample([*OVERSIZED.values()], 4))
def test_an_existing_oversized_object_can_be_changed_elsewhere(made: Object, field: str, number: str) -> None:
    """Whatever frees its chips must pass: labels, finalizers, scaling, deletion, status."""
    old = copy.deepcopy(made)
    old["metadata"]["finalizers"] = ["example.com/hold"]
    assert respond(made, old)["allowed"] is True
    if "labels" not in field:
        labeled = copy.deepcopy(old)
        labeled["metadata"]["labels"] = {**old["metadata"].get("labels", {}), "team": "red"}
        assert respond(labeled, old)["allowed"] is True
    leaving = copy.deepcopy(made)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert respond(leaving, old)["allowed"] is True
    grown = {**copy.deepcopy(made), "status": {"phase": "Running"}}
    assert respond(grown, pod(8), sub_resource="status")["allowed"] is True
    assert respond(made, old, operation="DELETE")["allowed"] is True


@pytest.mark.parametrize(
    ("old", "scale"),
    [
        (OVERSIZED["tasks"][0], lambda spec: spec["tasks"][3].update(replicas=0)),
        (OVERSIZED["dependencies"][0], lambda spec: spec["tasks"][3].update(replicas=0)),
        (OVERSIZED["terms of a vcjob"][0], lambda spec: spec["tasks"][0].update(replicas=0)),
        (OVERSIZED["a Deployment"][0], lambda spec: spec.update(replicas=0)),
        (OVERSIZED["an AscendJob"][0], lambda spec: spec["replicaSpecs"]["Master"].update(replicas=0)),
    ],
    ids=["tasks", "dependencies", "terms", "Deployment", "AscendJob"],
)
def test_an_existing_oversized_object_can_be_scaled(old: Object, scale: Callable[[Object], None]) -> None:
    new = copy.deepcopy(old)
    scale(new["spec"])
    assert new != old
    assert respond(new, old)["allowed"] is True


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (vcjob(tasks=tasks(8_000)), vcjob(tasks=tasks(8_001)), "spec.tasks: has 8,001 tasks"),
        (
            vcjob(tasks=tasks(100, chained=90)),
            vcjob(tasks=tasks(100, chained=91)),
            "spec.tasks.dependsOn: has 9,100 ",
        ),
        (vcjob(), vcjob(metadata={"labels": MANY_LABELS}), "metadata.labels: has 1,025 labels"),
        (
            vcjob(metadata={"labels": MANY_LABELS}),
            vcjob(metadata={"labels": {**MANY_LABELS, "l0": "other"}}),
            "metadata.labels: has 1,025 labels",
        ),
        (pod(8), pod(8, labels=MANY_LABELS), "metadata.labels: has 1,025 labels"),
        (pod(8), with_affinity(pod(8)), f"spec.{REQUIRED}: has 257 terms"),
        # As many of them, and others.
        (with_affinity(pod(8)), with_affinity(pod(8), label="rack"), f"spec.{REQUIRED}: has 257 terms"),
        (
            pod(8),
            {**pod(8), "spec": {**pod(8)["spec"], "tolerations": [{"operator": "Exists"}] * 300}},
            f"spec.tolerations: has 300 tolerations; at most {TOLERATIONS.most}",
        ),
        (group(), OVERSIZED["tasks of a PodGroup"][0], "spec.minTaskMember: has 2,000 tasks"),
        (deployment(), OVERSIZED["a Deployment"][0], f"spec.template.spec.{REQUIRED}: has 257 terms"),
        (
            OVERSIZED["a Deployment"][0],
            with_affinity(deployment(), *TEMPLATE, terms=300),
            f"spec.template.spec.{REQUIRED}: has 300 terms",
        ),
    ],
)
def test_a_change_of_the_field_itself_is_refused(old: Object, new: Object, said: str) -> None:
    assert said in message(respond(new, old))


def test_a_bound_pod_and_the_pods_of_another_scheduler_are_not_refused() -> None:
    """Nothing of them is to be placed, or not by us."""
    large = with_affinity(pod(8))
    bound = {**large, "spec": {**large["spec"], "nodeName": "node-1"}}
    assert respond(bound, pod(8))["allowed"] is True
    assert respond(with_affinity(pod(8, scheduler="other")))["allowed"] is True
    assert respond(with_affinity(deployment("other"), *TEMPLATE))["allowed"] is True
    assert respond(vcjob(scheduler="other", tasks=tasks(8_000)))["allowed"] is True
    # A ReplicaSet is its Deployment's, which was checked.
    owned = with_affinity(deployment(ownerReferences=[{"kind": "Deployment", "name": "web"}]), *TEMPLATE)
    assert respond({**owned, "kind": "ReplicaSet"})["allowed"] is True


def test_of_an_existing_pod_or_pod_group_nothing_else_is_checked() -> None:
    assert respond(pod(3), pod(8))["allowed"] is True
    assert respond(group("unknown"), group())["allowed"] is True
