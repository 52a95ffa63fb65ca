"""The chart on a real API server: all variants are accepted; a release is upgraded and removed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml
from tools.manifests import ADMISSION, KUSTOMIZATION, MANIFESTS

from ringwise.cli.exit_codes import ExitCode
from ringwise.wellknown import SCHEDULER_CONFIG_KEY, SCHEDULER_CONFIG_MAP, VOLCANO_SYSTEM
from ringwise_bench.checkout import definitions
from ringwise_bench.control_plane import ControlPlane, ringwise_command
from tests.cluster.cluster import PODS, Cluster, check_chips
from tests.cluster.commands import finished
from tests.cluster.objects import Object, node, nodes, vcjob
from tests.cluster.releases import apply_manifests, helm
from tests.cluster.test_move_plans import EXAMPLE
from tests.deploy import charts
from tests.deploy import shipped as manifests
from tests.deploy.charts import VALUES_FILES, VARIATIONS

pytestmark = pytest.mark.cluster

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{VOLCANO_SYSTEM}/deployments"
SETTINGS = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/configmaps/{SCHEDULER_CONFIG_MAP}"
VOLCANO = ("volcano-scheduler", "volcano-controllers")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def foreign_definitions() -> list[Object]:
    """The parts of definitions of other projects that the chart uses: other fields would be rejected."""
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    endpoint = _of_texts("port", "interval")
    monitor = {
        "selector": {"type": "object", "properties": {"matchLabels": labels}},
        "podMetricsEndpoints": {"type": "array", "items": endpoint},
    }
    service_monitor = {"selector": monitor["selector"], "endpoints": {"type": "array", "items": endpoint}}
    rule = _of_texts("alert", "expr", "for")
    rule["properties"] |= {"labels": labels, "annotations": labels}
    group = _of_texts("name")
    group["properties"]["rules"] = {"type": "array", "items": rule}
    return [
        _definition("PodMonitor", "selector", monitor),
        _definition("ServiceMonitor", "selector", service_monitor),
        _definition("PrometheusRule", "groups", {"groups": {"type": "array", "items": group}}),
        *cert_manager_definitions(),
    ]


def cert_manager_definitions() -> list[Object]:
    reference = _of_texts("name", "kind", "group")
    certificate = {
        **_of_texts("secretName", "commonName", "duration", "renewBefore")["properties"],
        "isCA": {"type": "boolean"},
        "usages": {"type": "array", "items": {"type": "string"}},
        "dnsNames": {"type": "array", "items": {"type": "string"}},
        "issuerRef": reference,
        "privateKey": {
            "type": "object",
            "properties": {
                **_of_texts("algorithm", "rotationPolicy")["properties"],
                "size": {"type": "integer"},
            },
        },
    }
    issuer = {"selfSigned": {"type": "object"}, "ca": _of_texts("secretName")}
    return [
        _definition("Certificate", "secretName", certificate, group="cert-manager.io"),
        _definition("Issuer", None, issuer, group="cert-manager.io"),
    ]


def _of_texts(*names: str) -> Object:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


def _definition(
    kind: str,
    required: str | None,
    properties: Object,
    group: str = "monitoring.coreos.com",
    version: str = "v1",
    scope: str = "Namespaced",
) -> Object:
    plural = f"{kind.lower()}s"
    spec = {"type": "object", "required": [required] if required else [], "properties": properties}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": scope,
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }
            ],
        },
    }


OPERATOR_KINDS = "/apis/ringwise.io/v1alpha1"
#: An object of each kind of ringwise.io.
WANTED: dict[str, Object] = {
    "isolations": {"kind": "Isolation", "spec": {"node": "node-1"}},
    "nodereservations": {
        "kind": "NodeReservation",
        "spec": {
            "nodeNames": ["node-1"],
            "holder": {"queue": "default"},
            "startTime": "2098-12-31T00:00:00Z",
            "endTime": "2099-01-01T00:00:00Z",
        },
    },
    "moveplans": {"kind": "MovePlan", "spec": EXAMPLE["spec"]},
    "usagelimits": {"kind": "UsageLimit", "spec": {"subject": {"queue": "*"}, "hard": {"runningJobs": 9}}},
}


def test_every_variant_of_the_chart_is_accepted(cluster: Cluster) -> None:
    version = cluster.api.get("/version")["gitVersion"]
    definitions = foreign_definitions()
    names = [one["metadata"]["name"] for one in definitions]
    cluster.apply(definitions)
    cluster.wait_established(*names)
    # Most variants share most objects: each different object is tried once.
    different: dict[str, Object] = {}
    for values in (*VARIATIONS.values(), *VALUES_FILES.values()):
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


def components(cluster: Cluster) -> dict[str, list[str]]:
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0].get("args", [])
        for one in cluster.api.items(DEPLOYMENTS)
    }


def test_a_release_beside_volcano_is_installed_upgraded_and_removed(empty: Cluster) -> None:
    """Volcano's definitions and settings exist before, and are unchanged afterwards."""
    (queues,) = [one for one in definitions() if one["spec"]["names"]["kind"] == "Queue"]
    theirs = {**queues, "metadata": {**queues["metadata"], "labels": {"by": "volcano"}}}
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": SCHEDULER_CONFIG_MAP, "namespace": VOLCANO_SYSTEM},
        "data": {SCHEDULER_CONFIG_KEY: "actions: allocate\n"},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VOLCANO_SYSTEM}}
    empty.apply([namespace, theirs, settings])

    output = helm(empty, "install", "ringwise", values=VARIATIONS["shadow"])
    assert "does not bind pods" in output
    assert components(empty).keys() == {"ringwise-scheduler"}
    assert "--shadow" in components(empty)["ringwise-scheduler"]

    uids = {}
    for kind, made in WANTED.items():
        body = {"apiVersion": "ringwise.io/v1alpha1", "metadata": {"name": "kept"}, **made}
        uids[kind] = empty.api.create(f"{OPERATOR_KINDS}/{kind}", body)["metadata"]["uid"]

    def kept() -> dict[str, str]:
        return {kind: empty.api.get(f"{OPERATOR_KINDS}/{kind}/kept")["metadata"]["uid"] for kind in WANTED}

    helm(empty, "upgrade", "ringwise", values={"admission": {"enabled": True}})
    assert kept() == uids
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
    # Those of ringwise.io stay: to delete them deletes their objects.
    assert kept() == uids
    assert "nodereservations.ringwise.io" in defined
    volcanos = {name for name in defined if not name.endswith(".ringwise.io")}
    assert volcanos == {one["metadata"]["name"] for one in definitions()}
    assert defined["queues.scheduling.volcano.sh"]["labels"] == {"by": "volcano"}
    assert empty.api.get("/api/v1/namespaces/mindx-dl")["status"]["phase"] == "Active"
    # The next release takes them over.
    helm(empty, "install", "ringwise", values={"admission": {"enabled": True}})
    assert kept() == uids


def workload(kind: str, namespace: str, name: str) -> Object:
    """A Deployment or DaemonSet of Volcano or of a vendor."""
    labels = {"app": name}
    container = {"name": "main", "image": "vendor/image:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_a_second_scheduler_controller_or_device_plugin_is_not_installed(empty: Cluster) -> None:
    empty.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VOLCANO_SYSTEM}}])

    def refused(**values: Any) -> str:
        with pytest.raises(AssertionError) as failure:
            helm(empty, "install", "ringwise", values=values)
        return str(failure.value)

    theirs = {name: workload("Deployment", VOLCANO_SYSTEM, name) for name in VOLCANO}
    empty.apply(theirs.values())
    assert "scale deployment volcano-scheduler --replicas=0" in refused(controller={"enabled": False})
    other = {"scheduler": {"schedulerNames": ["ringwise"]}}
    assert "replicas=0, or set controller.enabled=false" in refused(**other)
    helm(empty, "install", "ringwise", values=VARIATIONS["shadow"])
    for name in VOLCANO:
        empty.api.patch(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": 0}})
    vendor = "/apis/apps/v1/namespaces/kube-system/daemonsets"
    empty.apply([workload("DaemonSet", "kube-system", "ascend-device-plugin-daemonset")])
    helm(empty, "upgrade", "ringwise", values={})
    helm(empty, "uninstall", "ringwise")
    path = f"{vendor}/ascend-device-plugin-daemonset/status"
    counts = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")
    empty.api.patch(path, {"status": dict.fromkeys(counts, 3)})
    assert "set devicePlugin.enabled=false, or devicePlugin.nodes=labeled" in refused()
    helm(empty, "install", "ringwise", values=VARIATIONS["labeled-nodes"])


def test_a_definition_of_another_version_is_reported(empty: Cluster) -> None:
    old = _definition("Queue", None, {}, group="scheduling.volcano.sh", version="v1alpha1", scope="Cluster")
    empty.apply([old])
    with pytest.raises(AssertionError, match="serves v1alpha1, not v1beta1, which Ringwise needs"):
        helm(empty, "install", "ringwise", "--create-namespace", values={})


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


def test_helm_test_submits_a_job_and_explains_it(empty: Cluster) -> None:
    """The account of the test runs the command of its pod: no kubelet starts containers here."""
    helm(empty, "install", "ringwise", "--create-namespace", values={})
    empty.start_controllers()
    empty.use_namespace(VOLCANO_SYSTEM)
    empty.apply([{**node("npu"), "spec": {"unschedulable": True}}, node("other", 0)])
    empty.start_nodes()
    empty.run()
    with ThreadPoolExecutor() as executor:
        test = executor.submit(helm, empty, "test", "ringwise", "--timeout=4m")
        made = empty.wait(lambda: named_pod(empty, "ringwise-test"), "helm created the pod of the test")
        (container,) = made["spec"]["containers"]
        token = empty.plane.account_token(VOLCANO_SYSTEM, made["spec"]["serviceAccountName"])
        config = empty.plane.kubeconfig("helm-test", token)
        command, *arguments = container["command"]
        assert command == "kubectl-ringwise"

        def explained() -> CompletedProcess[str]:
            return finished([*ringwise_command(*arguments), f"--kubeconfig={config}"], {**os.environ})

        # The only node with chips is cordoned.
        empty.wait(lambda: is_pending(explained()), "the job is pending, and the reason is known")
        empty.api.patch("/api/v1/nodes/npu", {"spec": {"unschedulable": None}})
        empty.wait(lambda: explained().returncode == ExitCode.OK, "the job runs")
        check_chips(one for one in empty.pods() if one["metadata"]["name"] == "ringwise-test-0")
        bind = {"metadata": {"name": "ringwise-test"}, "target": {"kind": "Node", "name": "other"}}
        empty.api.create(f"{PODS}/ringwise-test/binding", bind)
        empty.annotate(made, {"tests.ringwise/ends": "succeeds"})
        assert "Succeeded" in test.result()
    empty.wait(lambda: not named_pod(empty, "ringwise-test-0"), "the test removes what it created")


def is_pending(done: CompletedProcess[str]) -> bool:
    return done.returncode == ExitCode.PENDING and "cordoned" in done.stdout


def named_pod(cluster: Cluster, name: str) -> Object | None:
    return next((one for one in cluster.pods() if one["metadata"]["name"] == name), None)


def versions(cluster: Cluster, objects: Iterable[Object]) -> dict[str, str]:
    """Return the resource version of each object, by its path."""
    paths = [f"{cluster.api.collection(one)}/{one['metadata']['name']}" for one in objects]
    return {path: cluster.api.get(path)["metadata"]["resourceVersion"] for path in paths}


def test_the_manifests_are_applied_by_kubectl_and_a_job_runs(empty: Cluster) -> None:
    # The API server itself writes definitions, and an applied object without fields, such as a Namespace.
    shipped = [one for one in manifests.objects() if one["kind"] != "Namespace"]
    apply_manifests(empty)
    before = versions(empty, shipped)
    assert len(before) == len(shipped) >= 50
    apply_manifests(empty)
    assert versions(empty, shipped) == before
    empty.use_namespace("training")
    empty.apply([*nodes(2), vcjob("train", 2, 8)])
    empty.start_nodes()
    empty.run()
    check_chips(empty.wait_running("train", 2))
    # A second administrator has settings of its own: they are reported, and not overwritten.
    empty.api.patch(SETTINGS, {"data": {SCHEDULER_CONFIG_KEY: "actions: allocate\n"}})
    answer = empty.kubectl("apply", "--server-side", "-k", str(MANIFESTS), check=False)
    assert "conflict" in answer
    assert empty.api.get(SETTINGS)["data"] == {SCHEDULER_CONFIG_KEY: "actions: allocate\n"}


def test_the_kustomize_component_adds_what_the_chart_adds_for_admission(
    empty: Cluster, tmp_path: Path
) -> None:
    """The API server accepts it, and the webhook starts with its Secret."""
    base = os.path.relpath(MANIFESTS, tmp_path.resolve())
    kustomization = {"resources": [base], "components": [f"{base}/{ADMISSION}"]}
    (tmp_path / KUSTOMIZATION).write_text(json.dumps(kustomization), encoding="utf-8")
    built = yaml.safe_load_all(empty.kubectl("kustomize", str(tmp_path)))
    wanted = [*definitions(), *manifests.objects(admission=True)]
    assert _sorted(built) == _sorted(wanted)
    apply_manifests(empty, tmp_path)
    webhook = empty.start("admission", "--address=127.0.0.1:0")
    empty.wait(lambda: webhook.ready, "the webhook is ready")
    assert versions(empty, manifests.objects(admission=True))
    webhook.stop()


def _sorted(objects: Iterable[Object]) -> list[str]:
    return sorted(json.dumps(one, sort_keys=True) for one in objects)
