"""Every value of the chart, rendered by helm, with the arguments tried on the commands themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import ringwise
from ringwise.cli.commands import run_command
from ringwise.framework.configuration import Settings
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.wellknown import SYSTEM_NAMESPACES
from ringwise_bench.checkout import CHART
from tests.deploy.charts import (
    BOARD,
    VALUES_FILES,
    VARIATIONS,
    Objects,
    chart_with_notes,
    helm,
    needs_helm,
    rendered,
    template,
    usual_values,
)
from tests.deploy.shipped import access_rules

FORMS = VARIATIONS | VALUES_FILES
each_variation = pytest.mark.parametrize("values", FORMS.values(), ids=FORMS)


# -- without helm


def _leaves(values: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        where = f"{path}.{name}".lstrip(".")
        if isinstance(value, dict) and value:
            yield from _leaves(value, where)
        else:
            yield where, value


def test_every_value_is_tested_with_another_one() -> None:
    usual = dict(_leaves(usual_values()))
    tried = {
        where
        for values in VARIATIONS.values()
        for where, value in _leaves(values)
        if value != usual.get(where)
    }
    untried = [
        where
        for where in usual
        if where not in tried and not any(one.startswith(f"{where}.") for one in tried)
    ]
    assert untried == []


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

    def compared(values: dict[str, Any], part: dict[str, Any], where: str) -> None:
        if "$ref" in part:
            part = schema["definitions"][part["$ref"].rpartition("/")[2]]
        if "properties" not in part or isinstance(part["additionalProperties"], dict):
            return
        assert part["additionalProperties"] is False, where
        if values:
            # Charts around ours hand down what they like.
            assert part["properties"].keys() - {"global"} == values.keys(), where
        for name, value in values.items():
            if isinstance(value, dict):
                compared(value, part["properties"][name], f"{where}.{name}")

    compared(usual_values(), schema, "")


# -- with helm


@needs_helm
@each_variation
def test_lint_reports_nothing(values: dict[str, Any]) -> None:
    done = helm("lint", "--strict", "-f", "-", str(CHART), stdin=json.dumps(values))
    assert done.returncode == 0, done.stdout + done.stderr


def _components(objects: Objects) -> dict[str, dict[str, Any]]:
    return {
        name.removeprefix("ringwise-"): one
        for (kind, _, name), one in objects.items()
        if kind in ("Deployment", "DaemonSet")
    }


def _container(deployment: dict[str, Any]) -> dict[str, Any]:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


#: Where the values of a component are not under its name.
_VALUES = {"device-plugin": "devicePlugin"}


def understood(arguments: list[str]) -> dict[str, Any]:
    """What the command makes of its arguments, without running."""
    run_word, name, *rest = arguments
    assert run_word == "run"
    command = run_command.get_command(click.Context(run_command), name)
    assert command is not None
    # As the DaemonSet sets it.
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("NODE_NAME", "node-1")
        with command.make_context(name, list(rest)) as context:
            return context.params


@needs_helm
@each_variation
def test_every_component_accepts_its_arguments(values: dict[str, Any]) -> None:
    components = _components(rendered(values))
    assert "scheduler" in components
    names = tuple(values.get("scheduler", {}).get("schedulerNames", ("volcano", "ringwise")))
    for component, deployment in components.items():
        container = _container(deployment)
        params = understood(container["args"])
        # The nodes with soft shares have a DaemonSet of their own with the same program.
        assert container["args"][:2] == ["run", component.removesuffix("-soft-shares")]
        if component in ("scheduler", "admission"):
            assert params["scheduler_names"] == names
            assert params["configuration_map"] == ("volcano-system", "volcano-scheduler-configmap")
        if component == "scheduler":
            assert params["with_controller"] is False
            assert params["shadow"] is values.get("scheduler", {}).get("shadow", False)
        for argument in values.get(_VALUES.get(component, component), {}).get("extraArgs") or ():
            assert argument in container["args"]


@needs_helm
@pytest.mark.parametrize(
    ("name", "volume"),
    [
        ("journal", {"emptyDir": {}}),
        ("journal-on-a-claim", {"persistentVolumeClaim": {"claimName": "journal"}}),
    ],
)
def test_the_journal_is_in_a_volume_that_the_scheduler_may_write(name: str, volume: dict[str, Any]) -> None:
    deployment = _components(rendered(VARIATIONS[name]))["scheduler"]
    container, spec = _container(deployment), deployment["spec"]["template"]["spec"]
    file = understood(container["args"])["journal"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "journal"]
    assert str(file.parent) == mount["mountPath"]
    assert {"name": "journal", **volume} in spec["volumes"]
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
    values = VARIATIONS[name]["scheduler"]["journal"]
    assert understood(container["args"])["journal_files"] == values.get("files", 8)
    assert understood(container["args"])["journal_size"] == values.get("size", 64)


@needs_helm
def test_limits_of_requests_reach_the_components() -> None:
    components = _components(rendered(VARIATIONS["gently"]))
    told = {name: understood(_container(one)["args"]) for name, one in components.items()}
    limits = {
        name: (one["requests_per_second"], one["burst"])
        for name, one in told.items()
        if "requests_per_second" in one
    }
    assert limits == {"scheduler": (50, 100), "controller": (12.5, 20)}
    assert told["scheduler"]["in_flight"] == 16
    usual = understood(_container(_components(rendered({}))["scheduler"])["args"])
    assert (usual["requests_per_second"], usual["in_flight"]) == (0, 64)


def test_wrong_arguments_would_be_noticed() -> None:
    with pytest.raises(click.UsageError, match="No such option"):
        understood(["run", "scheduler", "--shaddow"])


@needs_helm
@pytest.mark.parametrize(
    ("name", "components"),
    [
        ("defaults", ["scheduler", "controller", "device-plugin"]),
        ("shadow", ["scheduler"]),
        ("shadow-with-everything", ["scheduler"]),
        ("no-controller", ["scheduler", "device-plugin"]),
        ("vendor-device-plugin", ["scheduler", "controller"]),
        ("admission", ["scheduler", "controller", "admission", "device-plugin"]),
    ],
)
def test_switches_bring_components_and_nothing_of_the_others(name: str, components: list[str]) -> None:
    objects = rendered(VARIATIONS[name])
    assert _components(objects).keys() == set(components)
    accounts = {f"ringwise-{component}" for component in (*components, "test")}
    for (kind, _, _), one in objects.items():
        if kind in ("RoleBinding", "ClusterRoleBinding"):
            assert {subject["name"] for subject in one["subjects"]} <= accounts
    hooks = [key for key in objects if key[0] in ("ValidatingWebhookConfiguration", "Service")]
    assert bool(hooks) is ("admission" in components)


@needs_helm
@pytest.mark.parametrize("name", ["shadow", "shadow-with-everything"])
def test_in_shadow_mode_no_account_may_write(name: str) -> None:
    objects = rendered(VARIATIONS[name])
    # The roles of users are bound by the administrator, and grant our own objects only.
    bound = {
        (one["roleRef"]["kind"], namespace, one["roleRef"]["name"])
        for (kind, namespace, _), one in objects.items()
        if kind in ("RoleBinding", "ClusterRoleBinding")
    }
    rules = [
        ((kind, namespace, name) in bound, rule)
        for (kind, namespace, name), one in objects.items()
        if kind in ("Role", "ClusterRole")
        for rule in one["rules"]
    ]
    verbs = {
        verb
        for is_bound, rule in rules
        if is_bound or rule["apiGroups"] != ["ringwise.io"]
        for verb in rule["verbs"]
    }
    assert verbs == {"get", "list", "watch"}
    assert _components(objects)["scheduler"]["spec"]["replicas"] == 1


@needs_helm
def test_in_shadow_mode_no_namespace_is_created() -> None:
    def namespaces(values: dict[str, Any]) -> set[str]:
        made = yaml.load_all(template(values, "--namespace", "chips").stdout, yaml.CSafeLoader)
        return {one["metadata"]["name"] for one in made if one and one["kind"] == "Namespace"}

    assert namespaces({}) == {"mindx-dl", "volcano-system"}
    assert namespaces(VARIATIONS["shadow"]) == {"mindx-dl"}
    assert namespaces(VARIATIONS["nothing-made"]) == {"volcano-system"}


@needs_helm
def test_the_pod_monitor_finds_the_ports() -> None:
    objects = rendered(VARIATIONS["pod-monitor"])
    monitor = objects["PodMonitor", "volcano-system", "ringwise"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["interval"] == "1m30s"
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    for deployment in _components(objects).values():
        assert selected <= deployment["spec"]["template"]["metadata"]["labels"].items()
        assert endpoint["port"] in [port["name"] for port in _container(deployment)["ports"]]
    assert not [key for key in rendered({}) if key[0] == "PodMonitor"]


@needs_helm
def test_the_service_monitor_finds_the_ports() -> None:
    objects = rendered(VARIATIONS["service-monitor"])
    (endpoint,) = objects["ServiceMonitor", "volcano-system", "ringwise"]["spec"]["endpoints"]
    assert endpoint["interval"] == "15s"
    service = objects["Service", "volcano-system", "ringwise-metrics"]
    selected = objects["ServiceMonitor", "volcano-system", "ringwise"]["spec"]["selector"]["matchLabels"]
    services = [one for (kind, _, _), one in objects.items() if kind == "Service"]
    assert [one for one in services if selected.items() <= one["metadata"]["labels"].items()] == [service]
    (port,) = service["spec"]["ports"]
    assert port["name"] == endpoint["port"]
    for name, deployment in _components(objects).items():
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
        ports = {one["name"]: one["containerPort"] for one in _container(deployment)["ports"]}
        assert ports.get(port["targetPort"]) == (None if name == "admission" else port["port"])


@needs_helm
def test_metrics_are_not_read_twice() -> None:
    done = template({"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}})
    assert "podMonitor.enabled and serviceMonitor.enabled are mutually exclusive" in done.stderr


@needs_helm
def test_every_alert_of_an_installed_component_leads_to_its_runbook() -> None:
    def alerts(name: str) -> dict[str, str]:
        groups = rendered(VARIATIONS[name])["PrometheusRule", "volcano-system", "ringwise"]["spec"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules}

    all_of_them = {path.stem for path in (CHART.parents[2] / "docs" / "runbooks").glob("*.md")}
    full, small = alerts("alerts-and-grafana"), alerts("alerts-without-labels")
    assert full == {name: f"https://wiki.example.com/ringwise/{name}.md" for name in all_of_them}
    missing = {"RingwiseControllerNoLeader", "RingwiseDevicePluginDown", "RingwiseAdmissionDown"}
    assert small.keys() == all_of_them - missing


@needs_helm
def test_the_webhook_checks_pods_with_the_configured_scheduler_names() -> None:
    objects = rendered(VARIATIONS["other-names"])
    hooks = objects["ValidatingWebhookConfiguration", "", "ringwise-admission"]["webhooks"]
    (pods,) = [hook for hook in hooks if hook["name"] == "pods.ringwise.io"]
    (condition, _) = pods["matchConditions"]
    assert condition["expression"] == "object.spec.schedulerName in ['npu', 'npu-test']"
    old = rendered(VARIATIONS["admission"], "--kube-version", "1.27.0")
    hooks = old["ValidatingWebhookConfiguration", "", "ringwise-admission"]["webhooks"]
    assert not [hook for hook in hooks if "matchConditions" in hook]
    # Existing ones would be sent with every change.
    (pods,) = [hook for hook in hooks if hook["name"] == "pods.ringwise.io"]
    assert pods["rules"][0]["operations"] == ["CREATE"]


GUARDED = ("ValidatingAdmissionPolicy", "", "ringwise-annotations-guarded")


def _settings(objects: Objects) -> Settings:
    text = objects["ConfigMap", "volcano-system", "volcano-scheduler-configmap"]["data"]
    return read_configuration(text["volcano-scheduler.conf"], "chart", BUILT_IN).settings


@needs_helm
def test_N8_the_annotation_policy_is_made_where_the_api_server_has_it() -> None:
    """On by default, off by value, and the settings believe the annotations only with it."""
    for values, accounts in (
        ({}, usual_values()["annotationPolicy"]["accounts"]),
        (VARIATIONS["annotation-policy"], ("system:serviceaccount:npu:plugin",)),
        ({"annotationPolicy": {"accounts": []}}, ()),
    ):
        objects = rendered(values)
        (condition, _) = objects[GUARDED]["spec"]["matchConditions"]
        listed = re.findall(r"'([^']+)'", condition["expression"])
        ours = [
            f"system:serviceaccount:volcano-system:ringwise-{name}" for name in ("scheduler", "device-plugin")
        ]
        assert listed == [*ours, *accounts]
        assert _settings(objects).owned_annotations == "guarded"
    for objects in (
        rendered({}, "--kube-version", "1.29.0"),
        rendered({"annotationPolicy": {"enabled": False}}),
        rendered(VARIATIONS["shadow"]),
    ):
        assert GUARDED not in objects
        assert _settings(objects).owned_annotations == "open"


USERS = ("ValidatingAdmissionPolicy", "", "ringwise-users")
FILLED = ("MutatingWebhookConfiguration", "", "ringwise-admission")


@needs_helm
def test_the_user_of_a_job_is_written_where_a_policy_guards_it() -> None:
    """With admission alone; the settings believe the annotation only with the policy."""
    for values, accounts in (
        (VARIATIONS["admission"], usual_values()["userPolicy"]["accounts"]),
        (VARIATIONS["user-policy"], ("system:serviceaccount:ray:operator",)),
    ):
        objects = rendered(values)
        hooks = {hook["name"]: hook for hook in objects[FILLED]["webhooks"]}
        for conditions in (
            objects[USERS]["spec"]["matchConditions"],
            hooks["user.pods.ringwise.io"]["matchConditions"],
        ):
            listed = re.search(r"\[(.+?)\]", conditions[0]["expression"])
            assert listed is not None
            names = re.findall(r"'([^']+)'", listed[1])
            assert names == ["system:serviceaccount:volcano-system:ringwise-controller", *accounts]
        assert _settings(objects).user_annotation == "guarded"
    for objects in (
        rendered({}),
        rendered(VARIATIONS["no-user-policy"]),
        rendered(VARIATIONS["admission"], "--kube-version", "1.29.0"),
        rendered({**VARIATIONS["admission"], "scheduler": {"shadow": True}}),
    ):
        assert USERS not in objects
        hooks = {hook["name"]: hook for hook in objects.get(FILLED, {"webhooks": []})["webhooks"]}
        assert not any(name.startswith("user.") for name in hooks)
        assert _settings(objects).user_annotation == "open"


@needs_helm
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("chosen", ["allowed", "refused", "strict", None])
def test_pods_that_choose_their_chips_are_refused_unless_a_value_says_otherwise(
    chosen: str | None, guarded: bool
) -> None:
    values = {"configuration": {"visibleDevices": chosen}, "annotationPolicy": {"enabled": guarded}}
    settings = _settings(rendered(values if chosen else {"annotationPolicy": {"enabled": guarded}}))
    assert settings.visible_devices == (chosen or "refused")
    assert settings.owned_annotations == ("guarded" if guarded else "open")


@needs_helm
def test_the_device_plugin_s_policy_has_a_switch_of_its_own() -> None:
    own_node = ("ValidatingAdmissionPolicy", "", "ringwise-device-plugin-node")
    made = rendered({})[own_node]["spec"]
    account = "system:serviceaccount:volcano-system:ringwise-device-plugin"
    assert made["matchConditions"][0]["expression"] == f"request.userInfo.username == '{account}'"
    without = rendered(VARIATIONS["no-annotation-policy"])
    assert (own_node in without, GUARDED in without) == (True, False)
    without = rendered(VARIATIONS["no-device-plugin-policy"])
    assert (own_node in without, GUARDED in without) == (False, True)
    for objects in (
        rendered({}, "--kube-version", "1.29.0"),
        rendered({"devicePlugin": {"enabled": False}}),
        rendered(VARIATIONS["shadow"]),
    ):
        assert own_node not in objects


@needs_helm
@pytest.mark.parametrize(
    ("values", "version", "warned"),
    [
        ({}, "1.29.0", True),
        ({}, "1.30.0", False),
        ({"devicePlugin": {"enabled": False}}, "1.29.0", False),
        (VARIATIONS["no-device-plugin-policy"], "1.29.0", False),
        (VARIATIONS["shadow"], "1.29.0", False),
    ],
)
def test_the_notes_warn_of_tokens_without_a_node(
    tmp_path: Path, values: dict[str, Any], version: str, warned: bool
) -> None:
    asked = ("--show-only", "templates/notes.yaml", "--kube-version", version)
    done = template(values, *asked, chart=chart_with_notes(tmp_path))
    assert done.returncode == 0, done.stderr
    (notes,) = yaml.load_all(done.stdout, yaml.CSafeLoader)
    assert ("do not contain the node of their pod" in " ".join(notes["text"].split())) is warned


@needs_helm
def test_the_controller_s_policy_names_its_account_and_the_namespaces_of_the_system() -> None:
    policy = ("ValidatingAdmissionPolicy", "", "ringwise-controller-jobs")
    made = rendered({}, "--namespace", "chips")[policy]["spec"]
    account = "system:serviceaccount:chips:ringwise-controller"
    assert made["matchConditions"][0]["expression"] == f"request.userInfo.username == '{account}'"
    expression = made["validations"][0]["expression"]
    assert set(re.findall(r"'([^']+)'", expression)) == {*SYSTEM_NAMESPACES, "chips"}
    for values in (VARIATIONS["no-controller-policy"], VARIATIONS["no-controller"], VARIATIONS["shadow"]):
        assert policy not in rendered(values)
    assert policy not in rendered({}, "--kube-version", "1.29.0")


@needs_helm
def test_commands_of_every_namespace_are_obeyed_only_with_the_policy() -> None:
    """The policy and the argument of the controller come together, or neither does."""
    policy = ("ValidatingAdmissionPolicy", "", "ringwise-queue-commands")

    def obeyed(objects: Objects) -> list[str]:
        deployment = objects["Deployment", "volcano-system", "ringwise-controller"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        return [one for one in container["args"] if "queue-command" in one]

    assert policy in rendered({})
    assert obeyed(rendered({})) == ["--queue-command-namespace=*"]
    for values, options, arguments in (
        ({}, ("--kube-version", "1.29.0"), []),
        ({"queueCommandPolicy": {"enabled": False}}, (), []),
        (
            VARIATIONS["no-queue-command-policy"],
            (),
            ["--queue-command-namespace=default", "--queue-command-namespace=ops"],
        ),
    ):
        objects = rendered(values, *options)
        assert policy not in objects
        assert obeyed(objects) == arguments
    for values in (VARIATIONS["no-controller"], VARIATIONS["shadow"]):
        assert policy not in rendered(values)


@needs_helm
def test_network_policies_open_the_ports_of_each_component_and_no_other() -> None:
    values = VARIATIONS["network-policies"]["networkPolicy"]
    objects = rendered(VARIATIONS["network-policies"])
    for component, deployment in _components(objects).items():
        spec = objects["NetworkPolicy", "volcano-system", f"ringwise-{component}"]["spec"]
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert spec["podSelector"]["matchLabels"].items() <= labels.items()
        opened = {rule["ports"][0]["port"]: rule.get("from") for rule in spec["ingress"]}
        ports = {port["containerPort"] for port in _container(deployment)["ports"]}
        assert opened.keys() == ports
        assert opened[11251] is None
        assert opened.get(8080) == (None if component == "admission" else values["metricsFrom"])
        assert opened.get(9443) == (values["webhookFrom"] if component == "admission" else None)
    assert not [key for key in rendered({}) if key[0] == "NetworkPolicy"]


@needs_helm
def test_image_and_secrets() -> None:
    for deployment in _components(rendered(VARIATIONS["image"])).values():
        container = _container(deployment)
        assert container["image"] == "registry.example:5000/team/ringwise:1.10"
        assert container["imagePullPolicy"] == "Always"
        assert deployment["spec"]["template"]["spec"]["imagePullSecrets"] == [
            {"name": "first"},
            {"name": "second"},
        ]


@needs_helm
def test_where_components_run() -> None:
    wanted = VARIATIONS["placed"]
    components = _components(rendered(wanted))
    assert components.keys() == {"scheduler", "controller", "admission", "device-plugin"}
    for name, deployment in components.items():
        component = _VALUES.get(name, name)
        spec = deployment["spec"]["template"]["spec"]
        assert deployment["spec"].get("replicas") == wanted[component].get("replicas")
        for field in ("nodeSelector", "tolerations", "affinity"):
            assert spec[field] == wanted[component][field]
        assert _container(deployment)["resources"] == wanted[component]["resources"]
        meta = deployment["spec"]["template"]["metadata"]
        assert meta["annotations"] == wanted[component]["podAnnotations"]
        assert wanted[component]["podLabels"].items() < meta["labels"].items()
        environment = _container(deployment)["env"]
        assert environment[-2:] == wanted[component]["extraEnv"]
        assert "POD_IP" in {one["name"] for one in environment[:-2]}


@needs_helm
def test_every_object_has_the_standard_labels() -> None:
    """Selectors of workloads cannot be changed, so they do not have those of a release."""
    expected = {
        "app.kubernetes.io/name": "ringwise",
        "app.kubernetes.io/part-of": "ringwise",
        "app.kubernetes.io/instance": "ringwise",
        "app.kubernetes.io/version": ringwise.__version__,
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": f"ringwise-{ringwise.__version__}",
    }
    for name in ("defaults", "admission", "cert-manager", "alerts-and-grafana", "service-monitor", "web"):
        for key, one in rendered(VARIATIONS[name]).items():
            assert expected.items() <= one["metadata"]["labels"].items(), key
    for deployment in _components(rendered(VARIATIONS["admission"])).values():
        template = deployment["spec"]["template"]["metadata"]["labels"]
        assert "helm.sh/chart" not in template
        selected = deployment["spec"]["selector"]["matchLabels"]
        assert selected.keys() == {"app.kubernetes.io/name", "app.kubernetes.io/component"}
        assert selected.items() <= template.items()


@needs_helm
def test_replicas_prefer_different_zones_and_nodes() -> None:
    for name, deployment in _components(rendered(VARIATIONS["admission"])).items():
        spread = deployment["spec"]["template"]["spec"].get("topologySpreadConstraints", ())
        keys = [one["topologyKey"] for one in spread if one["whenUnsatisfiable"] == "ScheduleAnyway"]
        wanted = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
        assert keys == ([] if name == "device-plugin" else wanted)


@needs_helm
def test_what_is_disabled_is_absent_and_nothing_else() -> None:
    usual = rendered({})
    without = rendered(VARIATIONS["no-budget"])
    assert {key[0] for key in usual.keys() - without.keys()} == {"PodDisruptionBudget"}
    without = rendered(VARIATIONS["nothing-made"])
    assert usual.keys() - without.keys() == {
        ("ConfigMap", "volcano-system", "volcano-scheduler-configmap"),
    }
    for name, wanted in (("no-priority", None), ("other-priority", "system-node-critical")):
        for component, deployment in _components(rendered(VARIATIONS[name])).items():
            if component == "device-plugin":
                continue
            assert deployment["spec"]["template"]["spec"].get("priorityClassName") == wanted
    assert "resources" not in _container(_components(rendered(VARIATIONS["without-limits"]))["scheduler"])


def _device_plugin(name: str) -> dict[str, Any]:
    found: dict[str, Any] = _components(rendered(VARIATIONS[name]))["device-plugin"]
    spec = found["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def _folders(spec: dict[str, Any]) -> dict[str, bool]:
    """Host paths of a pod to whether it may write there."""
    (container,) = spec["containers"]
    mounts = {one["name"]: one for one in container["volumeMounts"]}
    assert mounts.keys() == {one["name"] for one in spec["volumes"]}
    paths = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    assert all(mounts[name]["mountPath"] == path for name, path in paths.items())
    return {path: not mounts[name].get("readOnly", False) for name, path in paths.items()}


@needs_helm
def test_the_device_plugin_writes_in_few_folders_of_the_host() -> None:
    usual = _folders(_device_plugin("defaults"))
    assert usual == {
        "/var/lib/kubelet/device-plugins": True,
        "/var/lib/kubelet/pod-resources": False,
        "/dev": False,
        "/sys/fs/cgroup": False,
        "/usr/local/Ascend/driver": False,
        "/usr/local/dcmi": False,
    }
    special = _device_plugin("device-plugin-with-cdi")
    assert [path for path, writes in _folders(special).items() if writes] == [
        "/data/kubelet/device-plugins",
        "/etc/cdi",
    ]
    params = understood(special["containers"][0]["args"])
    assert str(params["kubelet_dir"]) == "/data/kubelet"
    assert (params["mount_method"], str(params["cdi_dir"])) == ("cdi", "/etc/cdi")
    assert str(params["container_spec_dir"]) == "/run/containers"
    (specs,) = (one for one in special["containers"][0]["volumeMounts"] if one["name"] == "container-specs")
    # Without it the file systems of containers that ended would stay mounted in the plugin.
    assert (specs["readOnly"], specs["mountPropagation"]) == (True, "HostToContainer")


@needs_helm
def test_the_device_plugin_without_privileges_has_no_capability() -> None:
    spec = _device_plugin("device-plugin-with-cdi")
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert spec["securityContext"] == {
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    usual = _device_plugin("defaults")
    assert usual["containers"][0]["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert not {"hostPID", "hostNetwork", "hostIPC"} & usual.keys()


@needs_helm
def test_the_device_plugin_leaves_nodes_of_the_vendor_s_alone() -> None:
    def terms(name: str) -> list[dict[str, Any]]:
        affinity = _device_plugin(name)["affinity"]["nodeAffinity"]
        found = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert isinstance(found, list)
        return found

    label = "ringwise.io/device-plugin"
    chosen = {"key": label, "operator": "In", "values": ["ringwise"]}
    assert terms("labeled-nodes") == [{"matchExpressions": [chosen]}]
    left = {"key": label, "operator": "NotIn", "values": ["vendor"]}
    for term in terms("defaults"):
        assert chosen in term["matchExpressions"] or left in term["matchExpressions"]


@needs_helm
def test_settings_are_in_the_config_map_as_written() -> None:
    made = rendered(VARIATIONS["settings"])["ConfigMap", "volcano-system", "volcano-scheduler-configmap"]
    wanted = VARIATIONS["settings"]["configuration"]["content"]
    assert made["data"]["volcano-scheduler.conf"].strip() == wanted.strip()


@needs_helm
def test_another_namespace_is_used_everywhere() -> None:
    objects = rendered(VARIATIONS["admission"], "--namespace", "chips")
    assert {key[1] for key in objects} == {"", "chips", "kube-system", "mindx-dl", "volcano-system"}
    for (kind, namespace, name), one in objects.items():
        text = json.dumps(one)
        assert "serviceaccount:volcano-system:ringwise" not in text
        if kind in ("Deployment", "DaemonSet", "Service", "ServiceAccount", "ConfigMap"):
            assert namespace == "chips", name
        if kind.endswith("RoleBinding"):
            assert {subject["namespace"] for subject in one["subjects"]} == {"chips"}
        if kind.endswith("WebhookConfiguration"):
            assert {hook["clientConfig"]["service"]["namespace"] for hook in one["webhooks"]} == {"chips"}


@needs_helm
def test_every_set_of_rules_is_bound() -> None:
    values = {
        **VARIATIONS["admission"],
        **VARIATIONS["discovery"],
        "scheduler": {"resetConfig": True, "web": {"enabled": True, "tlsSecret": "web-tls"}},
    }
    objects = rendered(values)
    in_use = [one["rules"] for (kind, _, _), one in objects.items() if kind in ("Role", "ClusterRole")]
    assert [name for name, rules in access_rules().items() if rules not in in_use] == []


@needs_helm
def test_boards_reach_scheduler_and_webhook_and_a_change_restarts_them() -> None:
    usual, changed = (
        _components(rendered({**VARIATIONS["admission"], "boards": {"pair-x4": BOARD, "other": text}}))
        for text in (BOARD, f"{BOARD}# more\n")
    )
    for name in ("scheduler", "admission"):
        container = _container(usual[name])
        (mount,) = [one for one in container["volumeMounts"] if one["name"] == "boards"]
        files = [f"--board-file={mount['mountPath']}/{board}.toml" for board in ("other", "pair-x4")]
        assert container["args"][-2:] == files
        first, second = (made[name]["spec"]["template"]["metadata"] for made in (usual, changed))
        assert first["annotations"] != second["annotations"]
    assert usual["controller"] == _components(rendered(VARIATIONS["admission"]))["controller"]


@needs_helm
def test_the_dashboard_is_served_by_the_scheduler_with_the_certificate_of_a_secret() -> None:
    objects = rendered(VARIATIONS["web"])
    deployment = _components(objects)["scheduler"]
    spec, container = deployment["spec"]["template"]["spec"], _container(deployment)
    options = dict(one.split("=", 1) for one in container["args"] if one.startswith("--web-"))
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert options["--web-tls-cert-file"] == f"{mounts['web-certificate']}/tls.crt"
    assert options["--web-tls-private-key-file"] == f"{mounts['web-certificate']}/tls.key"
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert volumes["web-certificate"]["secret"] == {"secretName": "web-tls"}
    assert mounts.keys() == volumes.keys() == {"boards", "journal", "web-certificate"}
    service = "ringwise-web.volcano-system.svc"
    assert [one.partition("=")[2] for one in container["args"] if one.startswith("--web-host=")] == [
        "ringwise-web",
        "ringwise-web.volcano-system",
        service,
        f"{service}.cluster.local",
        "npu.example.com",
    ]
    front = objects["Service", "volcano-system", "ringwise-web"]["spec"]
    replicas = objects["Service", "volcano-system", "ringwise-web-replicas"]["spec"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert options["--web-address"] == f":{ports[front['ports'][0]['targetPort']]}"
    assert front["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    # The name of the other Service has the addresses of all replicas.
    assert (replicas["clusterIP"], replicas["selector"]) == ("None", front["selector"])
    address = f"ringwise-web-replicas.volcano-system.svc:{replicas['ports'][0]['port']}"
    assert options["--web-replicas"] == address
    alone = rendered(VARIATIONS["web-in-shadow-mode"])
    assert "ringwise-web-replicas" not in json.dumps(list(alone.values()))


@needs_helm
def test_definitions_can_be_left_to_volcano() -> None:
    kinds = {key[0] for key in rendered({}, "--include-crds")}
    assert "CustomResourceDefinition" in kinds
    # Ours are templates, so that an upgrade changes them.
    left = {name for kind, _, name in rendered({}, "--skip-crds") if kind == "CustomResourceDefinition"}
    assert left == {
        f"{name}.ringwise.io" for name in ("isolations", "moveplans", "nodereservations", "usagelimits")
    }


@needs_helm
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"schedular": {}}, "additional properties 'schedular' not allowed"),
        ({"scheduler": {"replica": 3}}, "at '/scheduler': additional properties 'replica' not allowed"),
        ({"scheduler": {"replicas": "two"}}, "at '/scheduler/replicas': got string, want integer"),
        ({"scheduler": {"replicas": -1}}, "at '/scheduler/replicas': minimum"),
        ({"scheduler": {"shadow": "yes"}}, "at '/scheduler/shadow': got string, want boolean"),
        ({"scheduler": {"schedulerNames": []}}, "at '/scheduler/schedulerNames': minItems"),
        ({"scheduler": {"schedulerNames": ["it's"]}}, "at '/scheduler/schedulerNames/0'"),
        (
            {"scheduler": {"extraArgs": "--shadow"}},
            "at '/scheduler/extraArgs': got string, want null or array",
        ),
        ({"scheduler": {"extraArgs": ["shadow"]}}, "at '/scheduler/extraArgs/0': 'shadow' does not match"),
        ({"controller": {"resources": {"cpu": "1"}}}, "additional properties 'cpu' not allowed"),
        ({"controller": {"resources": {"limits": {"cpu": "many"}}}}, "at '/controller/resources/limits/cpu'"),
        ({"controller": {"nodeSelector": {"npu": True}}}, "at '/controller/nodeSelector/npu': got boolean"),
        ({"controller": {"tolerations": [{"effect": "Never"}]}}, "value must be one of 'NoSchedule'"),
        ({"scheduler": {"journal": {"size": 0}}}, "at '/scheduler/journal/size': minimum"),
        ({"scheduler": {"journal": {"existingClaim": "A"}}}, "at '/scheduler/journal/existingClaim'"),
        ({"scheduler": {"bindsInFlight": 0}}, "at '/scheduler/bindsInFlight': minimum"),
        ({"controller": {"kubeApiQps": -1}}, "at '/controller/kubeApiQps': minimum"),
        ({"admission": {"kubeApiQps": 5}}, "at '/admission': additional properties 'kubeApiQps' not allowed"),
        ({"controller": {"enabled": None}}, "missing property 'enabled'"),
        ({"admission": {"affinity": {"nodes": {}}}}, "additional properties 'nodes' not allowed"),
        ({"devicePlugin": {"nodes": "some"}}, "at '/devicePlugin/nodes': value must be one of 'all'"),
        ({"devicePlugin": {"mountBy": "magic"}}, "at '/devicePlugin/mountBy': value must be one of 'auto'"),
        ({"devicePlugin": {"kubeletDir": "kubelet"}}, "at '/devicePlugin/kubeletDir'"),
        ({"image": {"tag": 1.1}}, "at '/image/tag': got number, want string"),
        ({"image": {"repository": "ringwise:1"}}, "at '/image/repository'"),
        ({"image": {"pullPolicy": "Sometimes"}}, "value must be one of 'Always'"),
        ({"imagePullSecrets": ["first"]}, "at '/imagePullSecrets/0': got string, want object"),
        ({"podMonitor": {"interval": 30}}, "at '/podMonitor/interval': got number, want string"),
        ({"serviceMonitor": {"interval": "soon"}}, "at '/serviceMonitor/interval'"),
        ({"prometheusRule": {"runbookUrl": "wiki"}}, "at '/prometheusRule/runbookUrl'"),
        (
            {"scheduler": {"podLabels": {"app.kubernetes.io/name": "other"}}},
            "at '/scheduler/podLabels/app.kubernetes.io~1name': false schema",
        ),
        (
            {"controller": {"extraEnv": {"A": "b"}}},
            "at '/controller/extraEnv': got object, want null or array",
        ),
        ({"admission": {"extraEnv": [{"value": "b"}]}}, "missing property 'name'"),
        ({"test": {"resource": "chips"}}, "at '/test/resource'"),
        ({"admission": {"certManager": {"enabled": True, "issuerRef": {"kind": "Issuer"}}}}, "issuerRef"),
        ({"annotationPolicy": {"accounts": ["a' || true"]}}, "at '/annotationPolicy/accounts/0'"),
        ({"queueCommandPolicy": {"namespaces": ["Team A"]}}, "at '/queueCommandPolicy/namespaces/0'"),
        ({"queueCommandPolicy": {"namespaces": []}}, "at '/queueCommandPolicy/namespaces': minItems"),
        ({"networkPolicy": {"metricsFrom": [{"pods": {}}]}}, "additional properties 'pods' not allowed"),
        ({"configuration": {"content": {"tiers": []}}}, "at '/configuration/content': got object"),
    ],
)
def test_wrong_values_are_refused_with_their_place(values: dict[str, Any], message: str) -> None:
    done = template(values)
    assert done.returncode != 0
    assert message in done.stderr
