"""Number 11: what SECURITY.md says holds: ports, privileges, rights, namespaces and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.apps.admission.webhook import WEBHOOK_PORT
from ringwise.cli.commands import cli
from ringwise.kube.write.tenant_text import MAX_TEXT
from ringwise.wellknown import SYSTEM_NAMESPACES
from tests.checkout import ROOT
from tests.deploy.shipped import access_rules, objects

TEXT = " ".join((ROOT / "SECURITY.md").read_text(encoding="utf-8").split())
RIGHTS: Mapping[str, list[dict[str, Any]]] = access_rules()
#: Pods that are installed with everything.
SPECS = {
    one["metadata"]["name"]: one["spec"]["template"]["spec"]
    for one in objects(admission=True)
    if one["kind"] in ("Deployment", "DaemonSet")
}


def says(sentence: str) -> bool:
    return sentence in TEXT


def test_every_port_is_on_the_page_and_none_else() -> None:
    (sentence,) = re.findall(r"outside a pod on the loopback address: (.*?)\. `--metrics-address`", TEXT)
    named = {int(port) for port in re.findall(r"\b(\d{4,5})\b", sentence)}
    used = {
        port["containerPort"]
        for spec in SPECS.values()
        for container in spec["containers"]
        for port in container["ports"]
    }
    # The device plugin has another default outside the chart.
    shown = " ".join(CliRunner().invoke(cli, ["run", "device-plugin", "--help"]).output.split())
    defaults = set(re.findall(r"default: \(port (\d+)", shown))
    assert defaults
    assert named == used | {int(port) for port in defaults}
    assert WEBHOOK_PORT in used


@pytest.mark.parametrize("name", sorted(SPECS))
def test_only_the_device_plugin_has_privileges(name: str) -> None:
    spec, plugin = SPECS[name], "device-plugin" in name
    (container,) = spec["containers"]
    context = {**spec.get("securityContext", {}), **container["securityContext"]}
    assert context["readOnlyRootFilesystem"] is True
    assert context.get("privileged", False) is plugin
    assert (context.get("runAsNonRoot") is not True) is plugin
    assert any("hostPath" in volume for volume in spec.get("volumes", ())) is plugin
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert plugin or context["capabilities"]["drop"] == ["ALL"]
    assert says("The device plugin runs as root and privileged")
    assert says("no host network, process or IPC namespace")


def test_who_reads_secrets() -> None:
    readers = {
        role
        for role, rules in RIGHTS.items()
        for rule in rules
        if "secrets" in rule["resources"] and {"get", "list", "watch", "*"} & set(rule["verbs"])
    }
    assert readers == {"admissionSecret"}
    assert says("scheduler and controller have no permission to read Secrets")
    (rule,) = [rule for rule in RIGHTS["admissionSecret"] if "get" in rule["verbs"]]
    assert rule["resourceNames"] == ["ringwise-admission"]
    assert says("The webhook reads the Secret `ringwise-admission` of its own namespace")


def test_the_systems_namespaces_and_the_length_of_texts() -> None:
    assert says("the namespaces `kube-system`, `volcano-system`, `mindx-dl`")
    assert says("outside `kube-system`, `volcano-system` and `mindx-dl`")
    assert {"kube-system", "volcano-system", "mindx-dl"} == SYSTEM_NAMESPACES
    assert says(f"have at most {MAX_TEXT:,} bytes")
