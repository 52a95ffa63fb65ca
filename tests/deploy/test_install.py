from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.apps.install.dashboard import Dashboard
from ringwise.apps.install.deployment import Choices, definitions, objects
from ringwise.apps.install.steps import (
    CONFIGURED,
    CREATED,
    KEPT,
    UNCHANGED,
    InstallError,
    Step,
    install,
    uninstall,
)
from ringwise.cli.install.install import install_command
from ringwise.kube.write.default_queues import default_queues
from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.config import direct
from tests.kube.harness import server

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENTS = "/apis/apps/v1/deployments"
CONFIG_MAPS = "/api/v1/configmaps"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
EVERYTHING = Choices(
    with_admission=True,
    with_annotation_policy=True,
    with_device_plugin_policy=True,
    with_controller_policy=True,
    with_queue_command_policy=True,
    dashboard=Dashboard("web-tls"),
)


async def done(steps: AsyncIterator[Step]) -> list[Step]:
    return [step async for step in steps]


def outcomes(steps: list[Step]) -> set[str]:
    return {step.outcome for step in steps}


async def test_the_first_run_creates_everything_and_the_second_nothing() -> None:
    async with server() as (api, client):
        first = await done(install(client, EVERYTHING))
        assert outcomes(first) == {CREATED}
        assert len(first) == len(definitions()) + len(objects(EVERYTHING)) + len(default_queues())
        assert [queue["metadata"]["name"] for queue in api.all(QUEUES)] == ["root", "default"]
        version = api.version
        second = await done(install(client, EVERYTHING))
        assert outcomes(second) == {UNCHANGED, KEPT}
        assert api.version == version


async def test_differences_are_corrected_and_settings_are_not_touched() -> None:
    async with server() as (api, client):
        await done(install(client, Choices()))
        deployment = api.get(DEPLOYMENTS, "volcano-system/ringwise-scheduler")
        deployment["spec"]["replicas"] = 7
        api.put(DEPLOYMENTS, deployment)
        settings = api.get(CONFIG_MAPS, "volcano-system/volcano-scheduler-configmap")
        settings["data"] = {"volcano-scheduler.conf": "mine"}
        api.put(CONFIG_MAPS, settings)
        steps = {(step.kind, step.name): step.outcome for step in await done(install(client, Choices()))}
        assert steps["Deployment", "volcano-system/ringwise-scheduler"] == CONFIGURED
        assert steps["ConfigMap", "volcano-system/volcano-scheduler-configmap"] == KEPT
        assert api.get(DEPLOYMENTS, "volcano-system/ringwise-scheduler")["spec"]["replicas"] == 2
        kept = api.get(CONFIG_MAPS, "volcano-system/volcano-scheduler-configmap")
        assert kept["data"] == {"volcano-scheduler.conf": "mine"}


async def test_volcano_s_definitions_are_used_and_not_overwritten() -> None:
    async with server() as (api, client):
        theirs = {
            "metadata": {"name": "queues.scheduling.volcano.sh"},
            "spec": {"versions": [{"name": "v1beta1", "served": True}], "theirs": True},
        }
        api.put(DEFINITIONS, theirs)
        steps = await done(install(client, Choices()))
        (step,) = [one for one in steps if one.name == "queues.scheduling.volcano.sh"]
        assert step.outcome == KEPT
        assert api.get(DEFINITIONS, "queues.scheduling.volcano.sh")["spec"]["theirs"] is True


async def test_a_definition_of_another_version_is_reported() -> None:
    async with server() as (api, client):
        old = {"spec": {"versions": [{"name": "v1alpha1", "served": True}]}}
        api.put(DEFINITIONS, {"metadata": {"name": "podgroups.scheduling.volcano.sh"}, **old})
        with pytest.raises(InstallError, match="serves v1alpha1, not v1beta1"):
            await done(install(client, Choices()))


@pytest.mark.parametrize(
    ("name", "replicas", "choices", "stops"),
    [
        ("volcano-scheduler", 1, Choices(), True),
        ("volcano-scheduler", None, Choices(), True),
        ("volcano-scheduler", 0, Choices(), False),
        ("volcano-controllers", 1, Choices(), True),
        ("volcano-controllers", 1, Choices(with_controller=False), False),
    ],
)
async def test_a_second_scheduler_or_controller_for_the_same_jobs_is_refused(
    name: str, replicas: int | None, choices: Choices, stops: bool
) -> None:
    async with server() as (api, client):
        spec = {} if replicas is None else {"replicas": replicas}
        api.put(DEPLOYMENTS, {"metadata": {"name": name, "namespace": "volcano-system"}, "spec": spec})
        if stops:
            with pytest.raises(InstallError, match=f"scale deployment {name} --replicas=0"):
                await done(install(client, choices))
            assert not api.all(DEFINITIONS)
        else:
            assert await done(install(client, choices))


@pytest.mark.parametrize(
    ("name", "nodes", "choices", "stops"),
    [
        ("ascend-device-plugin-daemonset", 3, Choices(), True),
        ("ascend-device-plugin-daemonset", 0, Choices(), False),
        ("ascend-device-plugin-daemonset", 3, Choices(with_device_plugin=False), False),
        ("ascend-device-plugin-daemonset", 3, Choices(device_plugin_nodes="labelled"), False),
        ("kube-proxy", 3, Choices(), False),
    ],
)
async def test_a_second_device_plugin_for_the_same_chips_is_refused(
    name: str, nodes: int, choices: Choices, stops: bool
) -> None:
    async with server() as (api, client):
        status = {"desiredNumberScheduled": nodes}
        meta = {"name": name, "namespace": "kube-system"}
        api.put("/apis/apps/v1/daemonsets", {"metadata": meta, "status": status})
        if stops:
            with pytest.raises(InstallError, match="keep it with --no-device-plugin, or move node by"):
                await done(install(client, choices))
            assert not api.all(DEFINITIONS)
        else:
            assert await done(install(client, choices))


class _OfAge(Client):
    """Talks to a server that says how old it is."""

    minor = ""

    async def request(self, method: str, path: str, **how: Any) -> bytes:
        if path == "/version":
            return json.dumps({"major": "1", "minor": self.minor}).encode()
        return await super().request(method, path, **how)


@pytest.mark.parametrize(
    ("minor", "limited"),
    [
        ("27", []),
        ("28+", ["podgroups.ringwise.io", "pods.ringwise.io", "workloads.ringwise.io"]),
        ("", ["podgroups.ringwise.io", "pods.ringwise.io", "workloads.ringwise.io"]),
    ],
)
async def test_an_old_server_gets_no_match_conditions(minor: str, limited: list[str]) -> None:
    async with server() as (api, _):
        client = _OfAge(direct(api.url))
        client.minor = minor
        async with client:
            await done(install(client, EVERYTHING))
        hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        made = api.get(hooks, "ringwise-admission")["webhooks"]
        assert [hook["name"] for hook in made if "matchConditions" in hook] == limited
        (pods,) = [hook for hook in made if hook["name"] == "pods.ringwise.io"]
        assert ("UPDATE" in pods["rules"][0]["operations"]) == bool(limited)


async def test_N8_without_admission_policies_neither_annotations_nor_commands_are_believed() -> None:
    guarded = Choices(
        with_annotation_policy=True,
        with_device_plugin_policy=True,
        with_controller_policy=True,
        with_queue_command_policy=True,
    )

    def controller(api: Any) -> str:
        made = api.get(DEPLOYMENTS, "volcano-system/ringwise-controller")
        return str(made["spec"]["template"]["spec"]["containers"][0]["args"])

    async with server() as (api, client):
        api.fault("GET /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", status=404)
        steps = await done(install(client, guarded))
        policies = [step for step in steps if step.kind == "ValidatingAdmissionPolicy"]
        assert [step.outcome for step in policies] == ["not found"] * 5
        (risk,) = [step.note for step in policies if "token" in step.note]
        assert "stolen from one node can change" in risk
        assert "queue-command" not in controller(api)
        settings = api.get(CONFIG_MAPS, "volcano-system/volcano-scheduler-configmap")["data"]
        assert "guarded" not in settings["volcano-scheduler.conf"]
    async with server() as (api, client):
        await done(install(client, guarded))
        settings = api.get(CONFIG_MAPS, "volcano-system/volcano-scheduler-configmap")["data"]
        assert "owned-annotations: guarded" in settings["volcano-scheduler.conf"]
        assert "--queue-command-namespace=*" in controller(api)


async def test_uninstall_leaves_definitions_namespaces_and_settings() -> None:
    async with server() as (api, client):
        await done(install(client, EVERYTHING))
        await done(uninstall(client, EVERYTHING))
        left = {
            collection.rpartition("/")[2]: sorted(kept)
            for collection, kept in api.collections.items()
            if kept
        }
        assert left == {
            "customresourcedefinitions": [one["metadata"]["name"] for one in definitions()],
            "namespaces": ["mindx-dl", "volcano-system"],
            "configmaps": ["volcano-system/volcano-scheduler-configmap"],
            "queues": ["default", "root"],
        }
        again = await done(uninstall(client, EVERYTHING))
        assert outcomes(again) == {"not found"}


async def test_missing_permissions_are_reported() -> None:
    async with server() as (api, client):
        api.fault("POST /apis/apiextensions", status=403)
        with pytest.raises(ApiError):
            await done(install(client, Choices()))


def test_printing_needs_no_cluster() -> None:
    result = CliRunner().invoke(install_command, ["--print", "--namespace", "chips", "--no-controller"])
    assert result.exit_code == 0
    assert "namespace: chips" in result.stdout
    assert "ringwise-controller" not in result.stdout


def test_a_missing_kubeconfig_is_one_line() -> None:
    result = CliRunner().invoke(install_command, ["--kubeconfig", "not-there"])
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
