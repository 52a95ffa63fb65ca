"""The chart on a real API server: all variants are accepted; a release is upgraded and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from ringwise.apps.install import deployment
from ringwise.wellknown import SCHEDULER_CONFIG_KEY, SCHEDULER_CONFIG_MAP, VOLCANO_SYSTEM
from ringwise_bench.control_plane import ControlPlane, find_program
from tests.cluster.cluster import Cluster
from tests.cluster.objects import Object
from tests.deploy import charts
from tests.deploy.charts import CHART, VARIATIONS

pytestmark = pytest.mark.cluster

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{VOLCANO_SYSTEM}/deployments"
SETTINGS = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/configmaps/{SCHEDULER_CONFIG_MAP}"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(autouse=True)
def _helm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "HELM", str(find_program("helm")))


def monitoring_definitions() -> list[Object]:
    """The parts of the Prometheus operator's definitions that are used: other fields would be rejected."""
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    endpoint = _of_texts("port", "interval")
    monitor = {
        "selector": {"type": "object", "properties": {"matchLabels": labels}},
        "podMetricsEndpoints": {"type": "array", "items": endpoint},
    }
    rule = _of_texts("alert", "expr", "for")
    rule["properties"] |= {"labels": labels, "annotations": labels}
    group = _of_texts("name")
    group["properties"]["rules"] = {"type": "array", "items": rule}
    return [
        _definition("PodMonitor", "selector", monitor),
        _definition("PrometheusRule", "groups", {"groups": {"type": "array", "items": group}}),
    ]


def _of_texts(*names: str) -> Object:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


def _definition(kind: str, required: str, properties: Object) -> Object:
    plural = f"{kind.lower()}s"
    spec = {"type": "object", "required": [required], "properties": properties}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }
            ],
        },
    }


def test_every_variant_of_the_chart_is_accepted(cluster: Cluster) -> None:
    version = cluster.api.get("/version")["gitVersion"]
    definitions = monitoring_definitions()
    names = [one["metadata"]["name"] for one in definitions]
    cluster.apply(definitions)
    cluster.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in names))
    # Most variants share most objects: each different object is tried once.
    different: dict[str, Object] = {}
    for values in VARIATIONS.values():
        made = charts.template(values, "--include-crds", "--kube-version", version)
        assert made.returncode == 0, made.stderr
        for one in filter(None, yaml.safe_load_all(made.stdout)):
            different[json.dumps(one, sort_keys=True)] = one
    assert len([one for one in different.values() if one["kind"] == "Deployment"]) >= 15
    assert len([one for one in different.values() if one["kind"] == "PodMonitor"]) >= 2
    assert len([one for one in different.values() if one["kind"] == "PrometheusRule"]) >= 2
    answer = cluster.kubectl(
        "apply",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(different.values())}),
        check=False,
    )
    accepted = [line for line in answer.splitlines() if line.endswith("(server dry run)")]
    assert len(accepted) == len(different), answer


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Another control plane, without objects of Ringwise."""
    with ControlPlane(tmp_path_factory.mktemp("empty-plane")) as plane:
        yield Cluster(plane)


def helm(cluster: Cluster, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
    more = [] if values is None else [str(CHART), "-f", "-"]
    folder = cluster.plane.folder
    done = charts.helm(
        *arguments,
        *more,
        f"--namespace={VOLCANO_SYSTEM}",
        f"--kubeconfig={cluster.admin_config}",
        stdin=None if values is None else json.dumps(values),
        HOME=str(folder),
        HELM_CACHE_HOME=str(folder / "helm"),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def components(cluster: Cluster) -> dict[str, list[str]]:
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["args"]
        for one in cluster.api.items(DEPLOYMENTS)
    }


def test_a_release_beside_volcano_is_installed_upgraded_and_removed(empty: Cluster) -> None:
    """Volcano's definitions and settings exist before, and are unchanged afterwards."""
    (queues,) = [one for one in deployment.definitions() if one["spec"]["names"]["kind"] == "Queue"]
    theirs = {**queues, "metadata": {**queues["metadata"], "labels": {"by": "volcano"}}}
    settings = deployment.configuration(deployment.Choices())
    settings["data"] = {SCHEDULER_CONFIG_KEY: "actions: allocate\n"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VOLCANO_SYSTEM}}
    empty.apply([namespace, theirs, settings])

    output = helm(empty, "install", "ringwise", values=VARIATIONS["shadow"])
    assert "binds nothing" in output
    assert components(empty).keys() == {"ringwise-scheduler"}
    assert "--shadow" in components(empty)["ringwise-scheduler"]

    helm(empty, "upgrade", "ringwise", values={"admission": {"enabled": True}})
    assert components(empty).keys() == {"ringwise-scheduler", "ringwise-controller", "ringwise-admission"}
    assert "--shadow" not in components(empty)["ringwise-scheduler"]
    account = f"--as=system:serviceaccount:{VOLCANO_SYSTEM}:ringwise-scheduler"
    may_bind = ("auth", "can-i", "create", "pods", "--subresource=binding", account, "-A")
    empty.wait(lambda: empty.kubectl(*may_bind, check=False).startswith("yes"), "the scheduler may bind")

    helm(empty, "upgrade", "ringwise", values=VARIATIONS["no-controller"])
    assert components(empty).keys() == {"ringwise-scheduler"}

    helm(empty, "uninstall", "ringwise")
    assert components(empty) == {}
    assert empty.api.get(SETTINGS)["data"] == settings["data"]
    defined = {one["metadata"]["name"]: one["metadata"] for one in empty.api.items(DEFINITIONS)}
    assert defined.keys() == {one["metadata"]["name"] for one in deployment.definitions()}
    assert defined["queues.scheduling.volcano.sh"]["labels"] == {"by": "volcano"}
    assert empty.api.get("/api/v1/namespaces/mindx-dl")["status"]["phase"] == "Active"


def test_a_release_with_its_own_settings_changes_them(empty: Cluster) -> None:
    """Settings that the chart created belong to it; it deletes them when it is removed."""
    helm(empty, "install", "ringwise", "--create-namespace", values={})
    assert "topology910" in empty.api.get(SETTINGS)["data"][SCHEDULER_CONFIG_KEY]
    helm(empty, "upgrade", "ringwise", values=VARIATIONS["settings"])
    wanted = VARIATIONS["settings"]["configuration"]["content"]
    assert empty.api.get(SETTINGS)["data"][SCHEDULER_CONFIG_KEY].strip() == wanted.strip()


@pytest.mark.parametrize("foreign", [False, True], ids=["created-by-the-chart", "of-another-owner"])
def test_a_release_is_rolled_back_and_its_namespaces_stay(empty: Cluster, foreign: bool) -> None:
    """Two rounds from install to uninstall: in the second one the namespaces exist before."""
    if foreign:
        empty.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mindx-dl"}}])
    before = {"ringwise-scheduler", "ringwise-controller"}
    for _ in range(2):
        helm(empty, "install", "ringwise", "--create-namespace", values={})
        assert components(empty).keys() == before
        second: dict[str, Any] = {"admission": {"enabled": True}}
        helm(empty, "upgrade", "ringwise", values=second)
        assert components(empty).keys() == {*before, "ringwise-admission"}
        helm(empty, "rollback", "ringwise", "1")
        assert components(empty).keys() == before
        # A revision that asks for no namespace: it exists all the same.
        helm(empty, "upgrade", "ringwise", values={**second, "clusterReports": {"createNamespace": False}})
        assert components(empty).keys() == {*before, "ringwise-admission"}
        helm(empty, "rollback", "ringwise", "1")
        assert components(empty).keys() == before
        helm(empty, "uninstall", "ringwise")
        assert components(empty) == {}
        for name in ("mindx-dl", VOLCANO_SYSTEM):
            namespace = empty.api.get(f"/api/v1/namespaces/{name}")
            assert namespace["status"]["phase"] == "Active"
            owned = "meta.helm.sh/release-name" in namespace["metadata"].get("annotations", {})
            assert owned is (name == "mindx-dl" and not foreign)
