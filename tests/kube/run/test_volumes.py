"""Claims of a whole component against the fake API server: what is written, and when pods are bound."""

from __future__ import annotations

from typing import Any

from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import GROUPS, NODES, PODS, group, node, pod, server, until
from tests.kube.run.test_runner import bound, running
from tests.manifests.volumes import BIND_COMPLETED, SELECTED_NODE, claim, storage_class, volume, with_claims

CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


def gang(api: FakeApiServer, storage_class: str) -> None:
    api.put(GROUPS, group("train", 2))
    for number in range(2):
        api.put(CLAIMS, claim(f"data-{number}", storage_class))
        one = pod(f"train-{number}", 8, group="train")
        api.put(PODS, {**one, "spec": with_claims(one["spec"], f"data-{number}")})


def complete(api: FakeApiServer, number: int, name: str) -> None:
    """What the volume controller does."""
    found = api.get(CLAIMS, f"default/data-{number}")
    found["metadata"].setdefault("annotations", {})[BIND_COMPLETED] = "yes"
    found["spec"]["volumeName"] = name
    api.put(CLAIMS, {**found, "status": {"phase": "Bound"}})


def selected(api: FakeApiServer) -> list[str]:
    return [one["metadata"].get("annotations", {}).get(SELECTED_NODE, "") for one in api.all(CLAIMS)]


def given(api: FakeApiServer) -> dict[str, Any]:
    return {
        one["metadata"]["name"]: one["spec"]["claimRef"]["name"]
        for one in api.all(VOLUMES)
        if "claimRef" in one["spec"]
    }


async def test_a_gang_is_bound_when_the_volumes_are_there_that_are_made_for_its_nodes() -> None:
    async with server() as (api, client):
        for number in (1, 2):
            api.put(NODES, node(f"node-{number}"))
        api.put(CLASSES, storage_class("fast", waits=True))
        gang(api, "fast")
        # The API server is busy for a while.
        api.fault("PATCH /api/v1/namespaces/default/persistentvolumeclaims", status=503, times=2)
        async with running(client):
            await until(lambda: sorted(selected(api)) == ["node-1", "node-2"])
            for number in range(2):
                assert not bound(api)
                api.put(VOLUMES, volume(f"pv-{number}", "fast", claim=f"default/data-{number}"))
                complete(api, number, f"pv-{number}")
            await until(lambda: len(bound(api)) == 2)
        assert [one["spec"]["nodeName"] for one in bound(api)] == selected(api)


async def test_volumes_that_exist_are_given_to_the_claims_of_a_gang_and_one_that_is_lost_is_replaced() -> (
    None
):
    async with server() as (api, client):
        for number in (1, 2):
            api.put(NODES, node(f"node-{number}"))
        api.put(CLASSES, storage_class("local", "kubernetes.io/no-provisioner", waits=True))
        for name in ("disk-1", "disk-2", "disk-3"):
            api.put(VOLUMES, {**volume(name, "local"), "status": {"phase": "Available"}})
        gang(api, "local")
        # Somebody else takes the first one at the same moment.
        api.fault("PATCH /api/v1/persistentvolumes/disk-1", status=403, times=1)
        async with running(client):
            await until(lambda: set(given(api).values()) == {"data-0", "data-1"})
            assert not bound(api)
            for name, of in given(api).items():
                complete(api, int(of.removeprefix("data-")), name)
            await until(lambda: len(bound(api)) == 2)
        assert len(given(api)) == 2


async def test_without_the_right_to_read_them_jobs_without_claims_start() -> None:
    """After an upgrade the rights may be those of a version that read no claims and no HyperNodes."""
    volumes = ("persistentvolumeclaims", "persistentvolumes")
    kinds = (*volumes, "storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "hypernodes")
    async with server() as (api, client):
        for number in (1, 2, 3):
            api.put(NODES, node(f"node-{number}"))
        gang(api, "fast")
        api.put(GROUPS, group("plain", 1))
        api.put(PODS, pod("plain-0", 8, group="plain"))
        api.fault(lambda method, path: any(kind in path for kind in kinds), status=403, times=1_000_000)
        async with running(client):
            await until(lambda: [one["metadata"]["name"] for one in bound(api)] == ["plain-0"])
