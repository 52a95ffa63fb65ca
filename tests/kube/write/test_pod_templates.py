"""Pods rendered from the templates of a vcjob, and bodies of other objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ringwise.kube.watch.job_templates import JobTemplates
from ringwise.kube.write.executor import group_body, job_status
from ringwise.kube.write.pod_templates import render
from ringwise.kube.write.ssh_keys import key_pair, public_key_of
from ringwise.messages.commands import ContainerPort, CreatePod, InitContainer, PodAdditions, SetJobStatus
from ringwise.state.job_plugins import HOME_SSH
from ringwise.state.model import NetworkTopology, Owner, Pod, PodClass, PodGroup
from tests.builders.values import group

#: The folder of root's keys in a container.
SSH_FOLDER = "/root/.ssh"


def templates(template: dict[str, Any], **spec: Any) -> JobTemplates:
    job = {
        "metadata": {"name": "train", "uid": "u1"},
        "spec": {"tasks": [{"name": "worker", "template": template}], **spec},
    }
    return JobTemplates.of(msgspec.Raw(msgspec.json.encode(job)))


def made(template: dict[str, Any], additions: PodAdditions | None = None, **spec: Any) -> dict[str, Any]:
    pod = Pod(
        "x",
        "team",
        "train-worker-0",
        PodClass(),
        labels={"volcano.sh/job-name": "train"},
        annotations={"hccl/rankIndex": "3"},
        task="worker",
        scheduler="volcano",
        priority_class="high",
    )
    return render(CreatePod(pod, "team/train", additions or PodAdditions()), templates(template, **spec))


def test_fields_unknown_to_the_core_are_kept() -> None:
    container = {"name": "main", "image": "train:1", "securityContext": {"runAsUser": 5}}
    template = {
        "metadata": {
            "labels": {"mine": "1"},
            "annotations": {"example.com/mine": "1", "hccl/rankIndex": "0"},
            "creationTimestamp": None,
        },
        "spec": {"containers": [container], "hostNetwork": True, "restartPolicy": "Never"},
    }
    pod = made(template)
    assert pod["metadata"]["labels"] == {"mine": "1", "volcano.sh/job-name": "train"}
    assert pod["metadata"]["annotations"] == {"example.com/mine": "1", "hccl/rankIndex": "3"}
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == ("train-worker-0", "team")
    owner = pod["metadata"]["ownerReferences"][0]
    assert (owner["uid"], owner["controller"], owner["apiVersion"]) == (
        "u1",
        True,
        "batch.volcano.sh/v1alpha1",
    )
    assert pod["spec"]["containers"] == [container]
    assert pod["spec"]["schedulerName"] == "volcano"
    assert pod["spec"]["priorityClassName"] == "high"
    assert pod["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert "creationTimestamp" not in pod["metadata"]


def test_job_plugins_add_to_every_container() -> None:
    own = {"name": "VC_TASK_INDEX", "value": "wrong"}
    template = {
        "spec": {
            "initContainers": [{"name": "first"}],
            "containers": [{"name": "main", "env": [own, {"name": "KEPT", "value": "1"}]}],
        }
    }
    additions = PodAdditions(
        env=(("VC_TASK_INDEX", "0"),),
        hostname="train-worker-0",
        subdomain="train",
        mounts=(("/etc/volcano", "ConfigMap", "train-svc"), (HOME_SSH, "Secret", "train-ssh")),
    )
    spec = made(template, additions)["spec"]
    assert spec["initContainers"][0]["env"] == [{"name": "VC_TASK_INDEX", "value": "0"}]
    assert spec["containers"][0]["env"] == [
        {"name": "KEPT", "value": "1"},
        {"name": "VC_TASK_INDEX", "value": "0"},
    ]
    assert (spec["hostname"], spec["subdomain"]) == ("train-worker-0", "train")
    assert spec["volumes"] == [
        {"name": "train-svc", "configMap": {"name": "train-svc"}},
        {
            "name": "train-ssh",
            "secret": {
                "secretName": "train-ssh",
                "defaultMode": 0o600,
                # Below a folder: the root of a volume is writable for everyone, and sshd rejects that.
                "items": [
                    {"key": key, "path": f".ssh/{key}"}
                    for key in ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
                ],
            },
        },
    ]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["volumeMounts"] == [
            {"name": "train-svc", "mountPath": "/etc/volcano"},
            {"name": "train-ssh", "mountPath": SSH_FOLDER, "subPath": ".ssh"},
        ]


def test_keys_outside_of_the_home_of_root_are_readable_for_all() -> None:
    additions = PodAdditions(mounts=(("/keys", "Secret", "train-ssh"),))
    (volume,) = made({"spec": {"containers": [{"name": "main"}]}}, additions)["spec"]["volumes"]
    assert volume["secret"]["defaultMode"] == 0o644


def test_variables_ports_and_commands_reach_the_containers_they_are_for() -> None:
    template = {
        "spec": {
            "hostname": "own",
            "initContainers": [{"name": "first"}],
            "containers": [{"name": "main", "ports": [{"containerPort": 22}]}, {"name": "side"}],
        }
    }
    additions = PodAdditions(
        hostname="train-worker-0",
        subdomain="train",
        env=(("MPI_HOST", "a"),),
        container_env=(("RANK", "1"),),
        env_from=(("VC_WORKER_NUM", "train-svc"),),
        ports=(ContainerPort("mpi", 22, in_init_containers=True), ContainerPort("gcs", 6379, "side")),
        commands=(("side", ("sh", "-c", "ray start")), ("absent", ("x",))),
        init_containers=(InitContainer("wait", "busybox", ("sh",)), InitContainer("first", "i", ("x",))),
    )
    spec = made(template, additions)["spec"]
    # The name of the template wins.
    assert (spec["hostname"], spec["subdomain"]) == ("own", "train")
    first, wait = spec["initContainers"]
    main, side = spec["containers"]
    everywhere = [
        {"name": "MPI_HOST", "value": "a"},
        {
            "name": "VC_WORKER_NUM",
            "valueFrom": {"configMapKeyRef": {"name": "train-svc", "key": "VC_WORKER_NUM"}},
        },
    ]
    assert first == {
        "name": "first",
        "env": everywhere,
        "ports": [{"name": "mpi", "containerPort": 22}],
    }
    assert (wait["name"], wait["image"], wait["command"]) == ("wait", "busybox", ["sh"])
    assert main["env"] == side["env"] == [*everywhere, {"name": "RANK", "value": "1"}]
    assert main["ports"] == [{"containerPort": 22}]
    assert side["ports"] == [{"name": "mpi", "containerPort": 22}, {"name": "gcs", "containerPort": 6379}]
    assert ("command" in main, side["command"]) == (False, ["sh", "-c", "ray start"])


def test_volumes_of_the_job_are_mounted_in_every_pod() -> None:
    volumes = [
        {"mountPath": "/data", "volumeClaimName": "data"},
        {"mountPath": "/out", "volumeClaim": {"accessModes": ["ReadWriteMany"]}},
    ]
    spec = made({"spec": {"containers": [{"name": "main"}]}}, volumes=volumes)["spec"]
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"]]
    assert claims == ["data", "train-volume-1"]


def test_a_job_that_cannot_be_read_gives_no_templates() -> None:
    assert JobTemplates.of(msgspec.Raw(b'{"metadata": 5}')).tasks == {}


def test_the_body_of_a_pod_group_has_quantities() -> None:
    group = PodGroup(
        "team",
        "train-u1",
        min_member=2,
        min_task_member={"worker": 2},
        queue="q",
        min_resources={"cpu": 1500, "memory": 1 << 30, "huawei.com/Ascend910": 16},
        owner=Owner("Job", "train", "u1"),
    )
    body = group_body(group)
    assert body["spec"]["minResources"] == {
        "cpu": "1500m",
        "memory": "1073741824",
        "huawei.com/Ascend910": "16",
    }
    assert body["metadata"]["ownerReferences"][0]["uid"] == "u1"


@pytest.mark.parametrize(
    ("topology", "written"),
    [
        (NetworkTopology(highest_tier=0), {"mode": "hard", "highestTierAllowed": 0}),
        (NetworkTopology(highest_tier_name="leaf"), {"mode": "hard", "highestTierName": "leaf"}),
        (NetworkTopology(soft=True), {"mode": "soft"}),
    ],
)
def test_the_body_of_a_pod_group_has_its_network_topology(
    topology: NetworkTopology, written: dict[str, Any]
) -> None:
    assert "networkTopology" not in group_body(group("plain", namespace="team"))["spec"]
    assert (
        group_body(group("near", namespace="team", topology=topology))["spec"]["networkTopology"] == written
    )


def test_a_job_status_has_a_time_with_nanoseconds() -> None:
    command = SetJobStatus(
        "team/train",
        "Running",
        counts={"Running": 2},
        since=1_700_000_000_123_456_789,
        tasks={"worker": {"Running": 2}, "gone": {}},
        min_available=2,
        conditions=(("Pending", 1_700_000_000_000_000_000), ("Running", 1_700_000_000_123_456_789)),
        controlled={"plugin-svc": "svc"},
    )
    status = job_status(command)
    assert (status["minAvailable"], status["controlledResources"]) == (2, {"plugin-svc": "svc"})
    assert [one["status"] for one in status["conditions"]] == ["Pending", "Running"]
    assert status["state"]["lastTransitionTime"] == "2023-11-14T22:13:20.123456789Z"
    assert (status["running"], status["pending"]) == (2, 0)
    # In a merge patch null removes a field.
    assert status["taskStatusCount"]["worker"]["phase"]["Running"] == 2
    assert status["taskStatusCount"]["worker"]["phase"]["Pending"] is None
    assert status["taskStatusCount"]["gone"] is None


def test_a_key_pair_fits_together() -> None:
    private, public = key_pair("train@ringwise")
    assert private.startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert public.endswith(" train@ringwise\n")
    assert public.count("\n") == 1
    key = serialization.load_pem_private_key(private.encode(), password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    assert key.key_size == 2048
    assert serialization.load_ssh_public_key(public.encode()) == key.public_key()
    assert key_pair("other")[0] != private
    assert public_key_of(private).split() == public.split()[:2]
    assert public_key_of("no key") == ""
