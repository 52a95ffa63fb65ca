"""What stories rely on: waits that tell what happened, a history without gaps, nothing of other stories."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import CONFIG_MAPS, PODS, Cluster
from tests.cluster.objects import pod

pytestmark = pytest.mark.cluster


def test_a_wait_ends_with_the_component_that_ended(cluster: Cluster) -> None:
    cluster.start("controller", "--no-such-option")
    with pytest.raises(AssertionError, match=r"^controller-\d+ ended: it leads\n(.*\n)*.*no-such-option"):
        cluster.wait(lambda: False, "it leads")


def test_a_pod_that_came_and_went_between_two_looks_is_in_the_history(cluster: Cluster) -> None:
    cluster.api.create(PODS, pod("brief", 1))
    cluster.api.delete(f"{PODS}/brief", {"gracePeriodSeconds": 0})
    cluster.api.create(PODS, pod("stays", 1))
    assert [(one.type, one.name) for one in cluster.history() if one.type != "MODIFIED"] == [
        ("ADDED", "brief"),
        ("DELETED", "brief"),
        ("ADDED", "stays"),
    ]


def test_what_a_story_leaves_is_deleted_and_what_cannot_be_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = {"name": "held", "namespace": "kube-system", "finalizers": ["tests.ringwise/held"]}
    cluster.apply(
        [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta},
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "left", "namespace": "elsewhere"}},
        ]
    )
    with monkeypatch.context() as short:
        short.setattr("tests.cluster.cluster.WAIT_TIMEOUT", 0.0)
        with pytest.raises(AssertionError, match=r"gone are .*'configmaps/kube-system/held'"):
            cluster.clear()
    cluster.api.patch(f"{CONFIG_MAPS}/held", {"metadata": {"finalizers": None}})
    cluster.clear()
    found = cluster.api.items("/api/v1/configmaps") + cluster.api.items("/api/v1/namespaces")
    assert not {"held", "left", "elsewhere"} & {one["metadata"]["name"] for one in found}
