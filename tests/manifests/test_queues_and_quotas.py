"""Queues with shares and node groups, ResourceQuotas, and PodGroups that carry the names of quotas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.manifests.bundle import read_bundle
from ringwise.state.model import ClassScope, NodeGroupAffinity, Queue, ResourceQuota

QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: q
  annotations: {volcano.sh/nodegroup-resource-limits: '%s'}
spec:
  deserved: {cpu: "2", huawei.com/Ascend910: 16}
  affinity:
    nodeGroupAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [a]
      preferredDuringSchedulingIgnoredDuringExecution: [b, c]
    nodeGroupAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [d]
"""


def queue(limits: str = "{}") -> Queue:
    bundle = read_bundle(["-"], stdin=(QUEUE % limits).encode())
    assert bundle.errors == []
    return bundle.queues[0]


def test_shares_and_node_groups_of_a_queue() -> None:
    read = queue()
    assert read.deserved == {"cpu": 2000, "huawei.com/Ascend910": 16}
    assert read.node_groups == NodeGroupAffinity(("a",), ("b", "c"), ("d",))
    assert (read.node_group_limits, read.node_group_problem) == ({}, "")


def test_limits_of_node_groups() -> None:
    read = queue('{"a": {"cpu": "1500m", "memory": "1Gi", "huawei.com/Ascend910": 8}}')
    limits = {"a": {"cpu": 1500, "memory": 2**30, "huawei.com/Ascend910": 8}}
    assert (read.node_group_limits, read.node_group_problem) == (limits, "")


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": 1}', '{"a": {"cpu": "x"}}', '{"a": {"cpu": true}}', "[" * 9999]
)
def test_limits_that_cannot_be_read_are_a_problem_of_the_queue_and_no_error(text: str) -> None:
    read = queue(text)
    assert read.node_group_limits == {}
    assert read.node_group_problem


QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: team}
spec:
  hard: {pods: "0"}
  %s
"""


@pytest.mark.parametrize(
    ("spec", "scopes", "others", "limited"),
    [
        ("", (), False, ()),
        ("scopes: [PriorityClass]", (ClassScope("Exists"),), False, ("high", "low")),
        ("scopes: [BestEffort]", (), True, ()),
        ("scopes: [PriorityClass, NotTerminating]", (ClassScope("Exists"),), True, ()),
        (
            "scopeSelector: {matchExpressions: "
            "[{scopeName: PriorityClass, operator: In, values: [high, top]}]}",
            (ClassScope("In", ("high", "top")),),
            False,
            ("high",),
        ),
        (
            "scopeSelector: {matchExpressions: "
            "[{scopeName: PriorityClass, operator: NotIn, values: [high]}]}",
            (ClassScope("NotIn", ("high",)),),
            False,
            ("", "low"),
        ),
        (
            "scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: DoesNotExist}]}",
            (ClassScope("DoesNotExist"),),
            False,
            ("",),
        ),
    ],
)
def test_the_scopes_of_a_quota(
    spec: str, scopes: tuple[ClassScope, ...], others: bool, limited: tuple[str, ...]
) -> None:
    bundle = read_bundle(["-"], stdin=(QUOTA % spec).encode())
    assert bundle.errors == []
    (quota,) = bundle.of(ResourceQuota)
    assert (quota.class_scopes, quota.other_scopes) == (scopes, others)
    assert tuple(name for name in ("", "high", "low") if quota.limits_class(name)) == limited


def test_an_unknown_operator_is_an_error_of_the_quota() -> None:
    spec = "scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Is, values: [a]}]}"
    bundle = read_bundle(["-"], stdin=(QUOTA % spec).encode())
    (error,) = bundle.errors
    assert "spec.scopeSelector.matchExpressions[0].operator" in str(error)
    assert "In, NotIn, Exists, DoesNotExist" in str(error)


CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status:
  allocatable: {cpu: "8", memory: 8Gi, pods: "110"}
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: small, namespace: default}
spec: {hard: {requests.cpu: 2500m, pods: "3"}}
status: {used: {requests.cpu: "1", pods: "1"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train, namespace: default}
spec:
  minMember: 1
  minResources: {cpu: %(cpu)s, requests.cpu: %(cpu)s, limits.cpu: 4, pods: 1, count/pods: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: default, annotations: {scheduling.k8s.io/group-name: train}}
spec:
  schedulerName: volcano
  containers: [{name: main, resources: {requests: {cpu: %(cpu)s}}}]
"""
CONF = "tiers: [{plugins: [{name: gang}, {name: topology910}, {name: resourcequota}, {name: predicates}]}]"


@pytest.mark.parametrize(("cpu", "placed"), [("1500m", True), ("1501m", False)])
def test_place_keeps_to_the_quota_of_the_namespace(tmp_path: Path, cpu: str, placed: bool) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER % {"cpu": cpu})
    (tmp_path / "conf").write_text(CONF)
    answer = CliRunner().invoke(
        cli, ["place", "-f", str(tmp_path / "cluster.yaml"), "--config", str(tmp_path / "conf"), "-o", "json"]
    )
    assert answer.exit_code == 0, answer.output
    (job,) = json.loads(answer.stdout)["jobs"]
    reason = job["reason"]
    assert (reason["code"] if reason else None) == (None if placed else "namespace-quota-insufficient")
