from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import ringwise
from ringwise.apps.admission.objects import (
    DEBUG_CONTAINERS,
    MUTATE_PATH,
    NAME,
    PATH,
    SERVICE_PORT,
    TIMEOUT,
    mutating_configuration,
    webhook_configuration,
)
from ringwise.apps.install.dashboard import Dashboard
from ringwise.apps.install.deployment import (
    PLAIN,
    VENDOR_ACCOUNTS,
    Choices,
    access_rules,
    chart,
    configuration,
    definitions,
    is_image_reference,
    objects,
    watched_rules,
    watched_rules_file,
)
from ringwise.apps.install.steps import printed
from ringwise.cli.commands import cli
from ringwise.device.drivers.dcmi import FOLDERS
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from ringwise.wellknown import CHIP_RESOURCE_FAMILIES, DEVICE_INFO_PREFIX, OWNED_ANNOTATIONS
from tests.deploy.comparing import by_identity

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = Choices(with_admission=True)
#: What the chart and `ringwise install` bring where nothing is said.
GUARDED = Choices(
    with_annotation_policy=True,
    annotation_accounts=VENDOR_ACCOUNTS,
    with_device_plugin_policy=True,
    with_controller_policy=True,
    with_queue_command_policy=True,
)
#: The options of the plain manifests, with the chart and with install.
NO_POLICIES = [
    f"{name}Policy.enabled=false"
    for name in ("annotation", "devicePlugin", "controller", "queueCommand", "user")
]
WITHOUT_POLICIES = [
    f"--no-{name}-policy" for name in ("annotation", "device-plugin", "controller", "queue-command", "user")
]


def test_the_rights_of_the_chart_are_those_of_the_table_of_kinds() -> None:
    """Write them anew with `make docs`."""
    written = chart().joinpath("files", "rbac-watched.yaml").read_text(encoding="utf-8")
    assert written == watched_rules_file()
    assert yaml.safe_load(written) == watched_rules()


@pytest.mark.parametrize(("name", "choices"), PLAIN.items())
def test_the_plain_manifests_are_what_install_prints(name: str, choices: Choices) -> None:
    """Write them anew with `make docs`."""
    assert (ROOT / "deploy" / "manifests" / name).read_text(encoding="utf-8") == printed(choices)


def test_the_webhooks_are_where_the_webhook_listens() -> None:
    both = (webhook_configuration("chips", {}), PATH), (mutating_configuration("chips", {}), MUTATE_PATH)
    for hooks, path in both:
        for hook in hooks["webhooks"]:
            service = {"name": NAME, "namespace": "chips", "path": path, "port": SERVICE_PORT}
            assert (hook["clientConfig"]["service"], hook["timeoutSeconds"]) == (service, TIMEOUT)
    resources = {
        kind for hook in both[0][0]["webhooks"] for rule in hook["rules"] for kind in rule["resources"]
    }
    assert f"pods/{DEBUG_CONTAINERS}" in resources


def test_what_is_printed_is_what_is_applied() -> None:
    assert list(yaml.safe_load_all(printed(EVERYTHING))) == [*definitions(), *objects(EVERYTHING)]


def test_shadow_brings_one_scheduler_that_may_write_nothing() -> None:
    made = objects(replace(GUARDED, with_admission=True, shadow=True))
    (scheduler,) = [one for one in made if one["kind"] in ("Deployment", "DaemonSet")]
    container = scheduler["spec"]["template"]["spec"]["containers"][0]
    assert "--shadow" in container["args"]
    assert scheduler["spec"]["replicas"] == 1
    verbs = {
        verb
        for one in made
        if one["kind"] in ("Role", "ClusterRole")
        for rule in one["rules"]
        for verb in rule["verbs"]
    }
    assert verbs == {"get", "list", "watch"}


@pytest.mark.parametrize(
    ("image", "valid"),
    [
        ("ringwise/ringwise:0.1.0", True),
        ("registry.example:5000/team/ring_wise-x:v1@sha256:" + "a" * 64, True),
        ("ringwise", True),
        ("Ringwise:1", False),
        ("ringwise:", False),
        ("ringwise:a b", False),
        ("http://registry.example/ringwise", False),
        ("", False),
        ("ringwise@sha256:12", False),
    ],
)
def test_the_image_is_a_reference(image: str, valid: bool) -> None:
    assert is_image_reference(image) is valid
    answer = CliRunner().invoke(cli, ["install", "--print", "--image", image])
    assert answer.exit_code == (0 if valid else 2)


def test_print_as_json_is_a_list_with_the_definitions() -> None:
    answer = CliRunner().invoke(cli, ["install", "--print", *WITHOUT_POLICIES, "-o", "json"])
    assert json.loads(answer.stdout)["items"] == [*definitions(), *objects(Choices())]


def test_the_default_configuration_is_the_default() -> None:
    text = configuration(Choices())["data"]["volcano-scheduler.conf"]
    assert read_configuration(text, "chart", BUILT_IN) == default_configuration()


def test_with_the_annotation_policy_the_settings_are_guarded() -> None:
    """N8: annotations are believed only where a policy guards them."""
    text = configuration(Choices(with_annotation_policy=True))["data"]["volcano-scheduler.conf"]
    assert read_configuration(text, "chart", BUILT_IN).settings.owned_annotations == "guarded"
    text = configuration(Choices())["data"]["volcano-scheduler.conf"]
    assert read_configuration(text, "chart", BUILT_IN).settings.owned_annotations == "open"


def test_the_annotation_policy_guards_exactly_the_owned_annotations() -> None:
    """N8: the keys of the policy are those of the code, twice: as they are, and as they were before."""
    policies = [
        one
        for one in objects(Choices(with_annotation_policy=True))
        if one["kind"] == "ValidatingAdmissionPolicy" and "annotations" in one["metadata"]["name"]
    ]
    assert len(policies) == 2
    for policy in policies:
        expressions = {one["name"]: one["expression"] for one in policy["spec"]["variables"]}
        for name in ("carried", "carriedBefore"):
            listed = re.findall(r"'([^']+)'", expressions[name])
            families = re.findall(r"startsWith\('([^']+)'\)", expressions[name])
            assert tuple(families) == CHIP_RESOURCE_FAMILIES
            keys = set(listed) - set(families)
            assert keys == {key for key in OWNED_ANNOTATIONS if not key.startswith(CHIP_RESOURCE_FAMILIES)}
    assert not [one for one in objects(EVERYTHING) if one["kind"].startswith("ValidatingAdmissionPolicy")]


def test_the_chart_carries_our_version() -> None:
    about = yaml.safe_load(chart().joinpath("Chart.yaml").read_text(encoding="utf-8"))
    assert (about["version"], about["appVersion"]) == (ringwise.__version__, ringwise.__version__)


def workloads() -> list[dict[str, Any]]:
    return [one for one in objects(EVERYTHING) if one["kind"] == "Deployment"]


def device_plugin() -> dict[str, Any]:
    (found,) = [one for one in objects(EVERYTHING) if one["kind"] == "DaemonSet"]
    return found


@pytest.mark.parametrize("workload", workloads(), ids=lambda one: one["metadata"]["name"])
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
    made = objects(EVERYTHING)
    accounts = {one["metadata"]["name"] for one in made if one["kind"] == "ServiceAccount"}
    used = {one["spec"]["template"]["spec"]["serviceAccountName"] for one in (*workloads(), device_plugin())}
    bound = {one["subjects"][0]["name"] for one in made if one["kind"].endswith("Binding")}
    assert accounts == used == bound


def test_the_annotation_policy_lets_the_device_plugin_s_account_write() -> None:
    """N8: the account of the DaemonSet is the one in the policy, whatever the namespace."""
    plugin_alone = replace(GUARDED, with_controller_policy=False, with_queue_command_policy=False)
    made = objects(replace(plugin_alone, namespace="chips"))
    (workload,) = [one for one in made if one["kind"] == "DaemonSet"]
    account = workload["spec"]["template"]["spec"]["serviceAccountName"]
    name = f"system:serviceaccount:{workload['metadata']['namespace']}:{account}"
    for policy in [one for one in made if one["kind"] == "ValidatingAdmissionPolicy"]:
        expressions = [one["expression"] for one in policy["spec"]["matchConditions"]]
        assert any(f"'{name}'" in expression for expression in expressions)


def test_each_policy_has_a_switch_of_its_own() -> None:
    """The one of the annotations says nothing about the device plugin, nor about Commands."""

    def policies(*options: str) -> set[str]:
        made = CliRunner().invoke(cli, ["install", "--print", "-o", "json", *options])
        return {
            one["metadata"]["name"]
            for one in json.loads(made.stdout)["items"]
            if one["kind"] == "ValidatingAdmissionPolicyBinding"
        }

    annotations = {"ringwise-annotations-guarded", "ringwise-annotations-copied"}
    node, jobs = "ringwise-device-plugin-node", "ringwise-controller-jobs"
    commands = "ringwise-queue-commands"
    assert policies() == {*annotations, node, jobs, commands}
    assert policies("--no-annotation-policy") == {node, jobs, commands}
    assert policies("--no-device-plugin-policy") == {*annotations, jobs, commands}
    assert policies("--no-controller-policy") == {*annotations, node, commands}
    assert policies("--no-queue-command-policy") == {*annotations, node, jobs}
    assert policies("--no-controller", "--no-device-plugin") == annotations
    assert policies("--shadow") == policies(*WITHOUT_POLICIES) == set()


def test_commands_of_every_namespace_are_obeyed_only_with_the_policy() -> None:
    def obeyed(choices: Choices) -> list[str]:
        (controller,) = [
            one
            for one in objects(choices)
            if (one["kind"], one["metadata"]["name"]) == ("Deployment", "ringwise-controller")
        ]
        (container,) = controller["spec"]["template"]["spec"]["containers"]
        return [one for one in container["args"] if "queue-command" in one]

    assert obeyed(Choices(with_queue_command_policy=True)) == ["--queue-command-namespace=*"]
    assert obeyed(Choices()) == []
    assert obeyed(Choices(queue_command_namespaces=("ops",))) == ["--queue-command-namespace=ops"]


def test_the_device_plugin_s_policy_names_all_that_it_writes_and_its_report() -> None:
    made = objects(Choices(with_device_plugin_policy=True))
    name = "ringwise-device-plugin-node"
    policy, binding = (one["spec"] for one in made if one["metadata"]["name"] == name)
    assert binding == {"policyName": name, "validationActions": ["Deny"]}
    verbs = {"CREATE": "create", "UPDATE": "patch"}
    guarded = {
        (verbs[operation], resource)
        for rule in policy["matchConstraints"]["resourceRules"]
        for operation in rule["operations"]
        for resource in rule["resources"]
    }
    rules = [rule for part in ("devicePlugin", "deviceReports") for rule in access_rules()[part]]
    written = {
        (verb, resource)
        for rule in rules
        for verb in rule["verbs"]
        for resource in rule["resources"]
        if verb not in ("get", "list", "watch")
    }
    assert guarded == written
    expressions = " ".join(one["expression"] for one in policy["validations"])
    assert f"'{DEVICE_INFO_PREFIX}' + variables.node" in expressions


def test_the_device_plugin_is_left_out_where_the_vendor_s_stays() -> None:
    made = objects(replace(GUARDED, with_device_plugin=False))
    assert not [one for one in made if "device-plugin" in one["metadata"]["name"]]


def test_the_device_plugin_finds_libraries_where_its_driver_looks() -> None:
    spec = device_plugin()["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    folders = [one["mountPath"] for one in container["volumeMounts"]]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["LD_LIBRARY_PATH"] == ":".join(str(folder) for folder in FOLDERS)
    for folder in FOLDERS:
        assert any(folder.is_relative_to(mounted) for mounted in folders)


def test_every_set_of_rules_is_bound() -> None:
    options = Choices(
        with_admission=True, with_reset_config=True, with_discovery=True, dashboard=Dashboard("web-tls")
    )
    in_use = [one["rules"] for one in objects(options) if one["kind"] in ("Role", "ClusterRole")]
    assert [name for name, rules in access_rules().items() if rules not in in_use] == []


def test_the_webhook_never_blocks() -> None:
    kinds = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
    hooks = [hook for one in objects(EVERYTHING) if one["kind"] in kinds for hook in one["webhooks"]]
    assert len({hook["name"] for hook in hooks}) == len(hooks) > 3
    assert {hook["failurePolicy"] for hook in hooks} == {"Ignore"}
    assert {hook["sideEffects"] for hook in hooks} == {"None"}
    assert not [one for one in objects(Choices()) if "admission" in one["metadata"]["name"]]


def test_definitions_have_their_short_names() -> None:
    short = {one["spec"]["names"]["kind"]: one["spec"]["names"].get("shortNames") for one in definitions()}
    assert short["Job"] == ["vcjob", "vj"]
    assert short["PodGroup"] is not None
    assert short["Queue"] is not None
    assert "pg" in short["PodGroup"]
    assert "q" in short["Queue"]
    scopes = {one["spec"]["names"]["kind"]: one["spec"]["scope"] for one in definitions()}
    assert scopes["Queue"] == "Cluster"
    assert scopes["HyperNode"] == "Cluster"
    assert short["HyperNode"] == ["hn"]
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


HELM = os.environ.get("RINGWISE_HELM") or shutil.which("helm")
BOARD_FILE = ROOT / "examples/boards/pair-x4.toml"
BOARDS = tuple((name, BOARD_FILE.read_text(encoding="utf-8")) for name in ("other", "pair-x4"))
_BOARD_VALUES = [f"boards.{name}={BOARD_FILE}" for name, _ in BOARDS]


def test_boards_reach_scheduler_and_webhook_and_a_change_starts_them_anew() -> None:
    def pods(boards: tuple[tuple[str, str], ...]) -> dict[str, dict[str, Any]]:
        made = objects(Choices(with_admission=True, boards=boards))
        return {
            one["metadata"]["name"]: one["spec"]["template"] for one in made if one["kind"] == "Deployment"
        }

    found, changed = pods(BOARDS), pods((BOARDS[0], ("pair-x4", f"{BOARDS[1][1]}# more\n")))
    for name in ("ringwise-scheduler", "ringwise-admission"):
        container = found[name]["spec"]["containers"][0]
        (mount,) = container["volumeMounts"]
        files = [f"--board-file={mount['mountPath']}/{board}.toml" for board, _ in BOARDS]
        assert container["args"][-2:] == files
        assert found[name]["metadata"]["annotations"] != changed[name]["metadata"]["annotations"]
    assert found["ringwise-controller"] == pods(())["ringwise-controller"]


@pytest.mark.parametrize(
    ("text", "complaint", "lines"),
    [
        (None, "cannot be read", 1),
        ("chips_per_node = 4", "rule: is missing", 4),
        (BOARDS[0][1].replace('name = "pair-x4"', 'name = "910-x8"'), "910-x8", 1),
        (BOARDS[0][1].replace('name = "pair-x4"', 'name = "pair/x4"'), "cannot be a key of a ConfigMap", 1),
    ],
)
def test_install_refuses_a_board_that_the_scheduler_would_refuse(
    tmp_path: Path, text: str | None, complaint: str, lines: int
) -> None:
    file = tmp_path / "board.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    answer = CliRunner().invoke(cli, ["install", "--print", "--boards", str(file)])
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert complaint in answer.stderr
    assert len(answer.stderr.splitlines()) == lines
    assert all(line.startswith("ringwise: --boards: ") for line in answer.stderr.splitlines())


def test_install_prints_the_board() -> None:
    answer = CliRunner().invoke(cli, ["install", "--print", "-o", "json", "--boards", str(BOARD_FILE)])
    items = {(one["kind"], one["metadata"]["name"]): one for one in json.loads(answer.stdout)["items"]}
    assert items["ConfigMap", "ringwise-boards"]["data"] == {"pair-x4.toml": BOARDS[1][1]}


def test_the_dashboard_is_served_by_the_scheduler_with_the_certificate_of_a_secret() -> None:
    plain = {_key(one): one for one in objects(Choices(namespace="chips", boards=BOARDS))}
    choices = Choices(
        namespace="chips", boards=BOARDS, dashboard=Dashboard("web-tls", ("npu.example.com", "ringwise-web"))
    )
    made = {_key(one): one for one in objects(choices)}
    changed = {key for key in made if made[key] != plain.get(key)}
    assert changed == {
        ("ClusterRole", "ringwise-web"),
        ("ClusterRoleBinding", "ringwise-web"),
        ("Deployment", "ringwise-scheduler"),
        ("Service", "ringwise-web"),
        ("Service", "ringwise-web-replicas"),
    }
    spec = made["Deployment", "ringwise-scheduler"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    options = dict(one.split("=", 1) for one in container["args"] if one.startswith("--web-"))
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert options["--web-cert-file"] == f"{mounts['web-certificate']}/tls.crt"
    assert options["--web-key-file"] == f"{mounts['web-certificate']}/tls.key"
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert volumes["web-certificate"]["secret"] == {"secretName": "web-tls"}
    assert set(mounts) == set(volumes) == {"boards", "web-certificate"}
    hosts = [one.partition("=")[2] for one in container["args"] if one.startswith("--web-host=")]
    assert hosts == [
        "ringwise-web",
        "ringwise-web.chips",
        "ringwise-web.chips.svc",
        "ringwise-web.chips.svc.cluster.local",
        "npu.example.com",
    ]
    service = made["Service", "ringwise-web"]["spec"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert options["--web-address"] == f":{ports[service['ports'][0]['targetPort']]}"
    labels = made["Deployment", "ringwise-scheduler"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    # The name of the other Service has the addresses of all replicas.
    replicas = made["Service", "ringwise-web-replicas"]["spec"]
    assert (replicas["clusterIP"], replicas["selector"]) == ("None", service["selector"])
    assert options["--web-replicas"] == f"ringwise-web-replicas.chips.svc:{replicas['ports'][0]['port']}"
    alone = objects(Choices(shadow=True, dashboard=Dashboard("web-tls")))
    assert not [one for one in alone if "ringwise-web-replicas" in json.dumps(one)]


def _key(one: dict[str, Any]) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--web-tls-secret", "Web_TLS"], "--web-tls-secret: no name: 'Web_TLS'"),
        (["--web-tls-secret", "web", "--web-host", "a b"], "--web-host: no name: 'a b'"),
        (["--web-tls-secret", "web", "--web-host", ""], "--web-host: no name: ''"),
        (["--web-host", "npu.example.com"], "--web-host goes with --web-tls-secret"),
    ],
)
def test_install_refuses_a_dashboard_that_would_not_start(options: list[str], complaint: str) -> None:
    answer = CliRunner().invoke(cli, ["install", "--print", *options])
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert complaint in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_install_prints_the_dashboard() -> None:
    options = [*WITHOUT_POLICIES, "--web-tls-secret", "web-tls", "--web-host", "npu.example.com"]
    answer = CliRunner().invoke(cli, ["install", "--print", "-o", "json", *options])
    choices = Choices(dashboard=Dashboard("web-tls", ("npu.example.com",)))
    assert json.loads(answer.stdout)["items"] == [*definitions(), *objects(choices)]


@pytest.mark.skipif(HELM is None, reason="needs helm; make test-cluster brings it")
@pytest.mark.parametrize(
    ("values", "choices"),
    [
        ([*NO_POLICIES], Choices()),
        ([*NO_POLICIES, "admission.enabled=true"], EVERYTHING),
        ([*NO_POLICIES, "controller.enabled=false"], Choices(with_controller=False)),
        ([*NO_POLICIES, "devicePlugin.enabled=false"], Choices(with_device_plugin=False)),
        (
            [*NO_POLICIES, "devicePlugin.nodes=labelled"],
            Choices(device_plugin_nodes="labelled"),
        ),
        ([], GUARDED),
        (["annotationPolicy.enabled=false"], replace(GUARDED, with_annotation_policy=False)),
        (["devicePluginPolicy.enabled=false"], replace(GUARDED, with_device_plugin_policy=False)),
        (["queueCommandPolicy.enabled=false"], replace(GUARDED, with_queue_command_policy=False)),
        (["admission.enabled=true"], replace(GUARDED, with_admission=True, with_user_policy=True)),
        (["admission.enabled=true", "userPolicy.enabled=false"], replace(GUARDED, with_admission=True)),
        (
            ["admission.enabled=true", "userPolicy.accounts={operators:a}"],
            replace(GUARDED, with_admission=True, with_user_policy=True, user_accounts=("operators:a",)),
        ),
        (["controller.enabled=false"], replace(GUARDED, with_controller=False)),
        (["devicePlugin.enabled=false"], replace(GUARDED, with_device_plugin=False)),
        (
            [*NO_POLICIES, "queueCommandPolicy.namespaces={default,ops}"],
            Choices(queue_command_namespaces=("default", "ops")),
        ),
        (
            [*NO_POLICIES, "admission.enabled=true", *_BOARD_VALUES],
            Choices(with_admission=True, boards=BOARDS),
        ),
        (
            [
                *NO_POLICIES,
                *_BOARD_VALUES,
                "scheduler.web.enabled=true",
                "scheduler.web.tlsSecret=web-tls",
                "scheduler.web.hosts={npu.example.com,npu}",
            ],
            Choices(boards=BOARDS, dashboard=Dashboard("web-tls", ("npu.example.com", "npu"))),
        ),
        (
            ["annotationPolicy.accounts={vendor:a,vendor:b}"],
            replace(GUARDED, annotation_accounts=("vendor:a", "vendor:b")),
        ),
    ],
)
def test_the_chart_renders_the_plain_manifests(values: list[str], choices: Choices) -> None:
    assert HELM is not None
    settings = [
        part for value in values for part in ("--set-file" if value.startswith("boards.") else "--set", value)
    ]
    command = [
        HELM,
        "template",
        "ringwise",
        str(ROOT / "deploy/helm/ringwise"),
        "--namespace",
        "volcano-system",
    ]
    done = subprocess.run(
        [*command, "--include-crds", "--kube-version", "1.31.0", *settings],
        capture_output=True,
        text=True,
        check=True,
    )
    assert by_identity(done.stdout) == by_identity(printed(choices))
