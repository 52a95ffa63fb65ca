"""The rendered manifests: they are those of the chart, and their parts fit together and fit the code."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from tools.manifests import (
    ADMISSION,
    KUSTOMIZATION,
    MANIFESTS,
    WATCHED,
    chart_hash,
    recorded_hash,
    render,
    watched_rights,
)

import ringwise
from ringwise.apps.admission.serving_certificate import NAME
from ringwise.apps.admission.webhook import DEBUG_CONTAINERS, MUTATE_PATH, PATH, TIMEOUT, USER_PATH
from ringwise.device.drivers.dcmi import FOLDERS
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from ringwise.wellknown import (
    CHIP_RESOURCE_FAMILIES,
    DEVICE_INFO_PREFIX,
    OWNED_ANNOTATIONS,
    SCHEDULER_CONFIG_KEY,
)
from ringwise_bench.checkout import CHART, definitions
from tests.deploy.charts import needs_helm
from tests.deploy.shipped import Object, access_rules, chart_text, objects, webhooks


def test_the_rights_of_the_chart_are_those_of_the_table_of_kinds() -> None:
    """`make manifests` writes them."""
    assert WATCHED.read_text(encoding="utf-8") == watched_rights()


def test_the_manifests_are_rendered_from_the_present_chart() -> None:
    """`make manifests` renders them; this needs no Helm."""
    assert recorded_hash() == chart_hash()


@needs_helm
def test_the_manifests_are_what_the_chart_renders() -> None:
    written = {
        path.relative_to(MANIFESTS).as_posix(): path.read_text(encoding="utf-8")
        for path in MANIFESTS.rglob("*")
        if path.is_file()
    }
    assert written == render()


def test_the_kustomizations_list_every_file() -> None:
    for folder in (MANIFESTS, MANIFESTS / ADMISSION):
        made = yaml.safe_load((folder / KUSTOMIZATION).read_text(encoding="utf-8"))
        listed = [*made["resources"], *(one["path"] for one in made.get("patches", ()))]
        assert sorted([*listed, KUSTOMIZATION]) == sorted(path.name for path in folder.glob("*.yaml"))


def test_no_object_says_that_helm_installed_it() -> None:
    labels = {label for one in objects(admission=True) for label in one["metadata"].get("labels", {})}
    assert not {"app.kubernetes.io/managed-by", "helm.sh/chart"} & labels


def test_the_admission_component_changes_the_settings_and_nothing_else() -> None:
    """Its patch must be an object that a strategic merge replaces as a whole."""
    plain, all_of_them = ({_key(one): one for one in made} for made in (objects(), objects(admission=True)))
    assert plain.keys() <= all_of_them.keys()
    changed = [key for key, one in plain.items() if all_of_them[key] != one]
    assert changed == [("ConfigMap", "volcano-scheduler-configmap")]


def _key(one: Object) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def test_the_webhooks_are_where_the_webhook_listens() -> None:
    for kind, paths in (("Validating", {PATH}), ("Mutating", {MUTATE_PATH, USER_PATH})):
        hooks = webhooks(kind)["webhooks"]
        services = [hook["clientConfig"]["service"] for hook in hooks]
        assert {service.pop("path") for service in services} == paths
        assert all(one == {"name": NAME, "namespace": "volcano-system", "port": 443} for one in services)
        assert {hook["timeoutSeconds"] for hook in hooks} == {TIMEOUT}
    rules = [rule for hook in webhooks("Validating")["webhooks"] for rule in hook["rules"]]
    assert f"pods/{DEBUG_CONTAINERS}" in {resource for rule in rules for resource in rule["resources"]}


def test_the_default_configuration_is_the_default() -> None:
    assert read_configuration(chart_text(SCHEDULER_CONFIG_KEY), "chart", BUILT_IN) == default_configuration()


def policies() -> dict[str, Object]:
    made = [one for one in objects(admission=True) if one["kind"] == "ValidatingAdmissionPolicy"]
    return {one["metadata"]["name"]: one["spec"] for one in made}


def test_every_policy_denies_and_has_a_binding() -> None:
    bound = {
        one["spec"]["policyName"]: one["spec"]["validationActions"]
        for one in objects(admission=True)
        if one["kind"] == "ValidatingAdmissionPolicyBinding"
    }
    assert bound.keys() == policies().keys()
    assert {name for name, actions in bound.items() if actions != ["Deny"]} == {"ringwise-annotations-copied"}
    assert {spec["failurePolicy"] for spec in policies().values()} == {"Fail"}


def test_the_annotation_policy_guards_exactly_the_owned_annotations() -> None:
    """N8: the keys of the policy are those of the code, twice: as they are, and as they were before."""
    for part in ("guarded", "copied"):
        variables = policies()[f"ringwise-annotations-{part}"]["variables"]
        expressions = {one["name"]: one["expression"] for one in variables}
        for name in ("carried", "carriedBefore"):
            listed = re.findall(r"'([^']+)'", expressions[name])
            families = re.findall(r"startsWith\('([^']+)'\)", expressions[name])
            assert tuple(families) == CHIP_RESOURCE_FAMILIES
            keys = set(listed) - set(families)
            assert keys == {key for key in OWNED_ANNOTATIONS if not key.startswith(CHIP_RESOURCE_FAMILIES)}


def test_the_annotation_policy_lets_the_device_plugin_s_account_write() -> None:
    """N8: the account of the DaemonSet is the one in the policies."""
    (workload,) = workloads("DaemonSet")
    account = workload["spec"]["template"]["spec"]["serviceAccountName"]
    name = f"system:serviceaccount:{workload['metadata']['namespace']}:{account}"
    for policy in ("annotations-guarded", "annotations-copied", "device-plugin-node"):
        expressions = [one["expression"] for one in policies()[f"ringwise-{policy}"]["matchConditions"]]
        assert any(f"'{name}'" in expression for expression in expressions)


def test_the_device_plugin_s_policy_names_all_that_it_writes_and_its_report() -> None:
    policy = policies()["ringwise-device-plugin-node"]
    verbs = {"CREATE": "create", "UPDATE": "patch"}
    guarded = {
        (verbs[operation], resource)
        for rule in policy["matchConstraints"]["resourceRules"]
        for operation in rule["operations"]
        for resource in rule["resources"]
    }
    written = {
        (verb, resource)
        for part in ("devicePlugin", "deviceReports")
        for rule in access_rules()[part]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        if verb not in ("get", "list", "watch")
    }
    assert guarded == written
    expressions = " ".join(one["expression"] for one in policy["validations"])
    assert f"'{DEVICE_INFO_PREFIX}' + variables.node" in expressions


def test_the_chart_carries_our_version() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (about["version"], about["appVersion"]) == (ringwise.__version__, ringwise.__version__)


def workloads(*kinds: str) -> list[Object]:
    return [one for one in objects(admission=True) if one["kind"] in kinds]


@pytest.mark.parametrize("workload", workloads("Deployment"), ids=lambda one: one["metadata"]["name"])
def test_workloads_run_with_as_little_as_possible(workload: dict[str, Any]) -> None:
    spec = workload["spec"]["template"]["spec"]
    assert workload["spec"]["replicas"] == 2
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"requests", "limits"} <= container["resources"].keys()
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_every_workload_has_an_account_and_every_account_its_bindings() -> None:
    made = objects(admission=True)
    accounts = {one["metadata"]["name"] for one in made if one["kind"] == "ServiceAccount"}
    templates = [one["spec"]["template"]["spec"] for one in workloads("Deployment", "DaemonSet")]
    used = {template["serviceAccountName"] for template in templates}
    bound = {one["subjects"][0]["name"] for one in made if one["kind"].endswith("RoleBinding")}
    assert accounts == used == bound


def test_the_device_plugin_finds_libraries_where_its_driver_looks() -> None:
    (plugin,) = workloads("DaemonSet")
    (container,) = plugin["spec"]["template"]["spec"]["containers"]
    folders = [one["mountPath"] for one in container["volumeMounts"]]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["LD_LIBRARY_PATH"] == ":".join(str(folder) for folder in FOLDERS)
    for folder in FOLDERS:
        assert any(folder.is_relative_to(mounted) for mounted in folders)


def test_the_webhook_never_blocks() -> None:
    hooks = [hook for kind in ("Validating", "Mutating") for hook in webhooks(kind)["webhooks"]]
    assert len({hook["name"] for hook in hooks}) == len(hooks) > 3
    assert {hook["failurePolicy"] for hook in hooks} == {"Ignore"}
    assert {hook["sideEffects"] for hook in hooks} == {"None"}
    assert not [one for one in objects() if "admission" in one["metadata"]["name"]]


def test_definitions_have_their_short_names() -> None:
    names = {one["spec"]["names"]["kind"]: one["spec"]["names"] for one in definitions()}
    assert names["Job"]["shortNames"] == ["vcjob", "vj"]
    assert "pg" in names["PodGroup"]["shortNames"]
    assert "q" in names["Queue"]["shortNames"]
    assert names["HyperNode"]["shortNames"] == ["hn"]
    scopes = {one["spec"]["names"]["kind"]: one["spec"]["scope"] for one in definitions()}
    assert scopes["Queue"] == scopes["HyperNode"] == "Cluster"
    columns = {
        one["spec"]["names"]["kind"]: [
            column["name"] for column in one["spec"]["versions"][0]["additionalPrinterColumns"]
        ]
        for one in definitions()
        if one["spec"]["names"]["kind"] in ("Job", "HyperNode")
    }
    assert columns == {
        "Job": ["STATUS", "minAvailable", "RUNNINGS", "AGE", "QUEUE"],
        "HyperNode": ["Tier", "TierName", "NodeCount", "Age"],
    }
