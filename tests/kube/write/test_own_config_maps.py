"""ConfigMaps of the scheduler: where they are, and where they go when their namespace does not exist."""

from __future__ import annotations

import asyncio

import pytest

from ringwise.kube.write.own_config_maps import OwnConfigMaps
from ringwise.kubeclient.client import ApiError
from tests.kube.harness import CONFIG_MAPS, server

USUAL, OWN, NAME = "mindx-dl", "volcano-system", "job-reschedule-reason"
IN_USUAL = f"/api/v1/namespaces/{USUAL}/configmaps"


async def test_F1_what_is_written_is_read_back_and_other_keys_stay() -> None:
    async with server() as (api, client):
        theirs = {"metadata": {"name": NAME, "namespace": USUAL}, "data": {"other": "kept"}}
        api.put(CONFIG_MAPS, theirs)
        maps = OwnConfigMaps(client, OWN)
        await maps.write(USUAL, NAME, {"records": "1"})
        assert await maps.read(USUAL, NAME) == {"records": "1", "other": "kept"}
        assert await maps.read(USUAL, "missing") == {}


async def test_F1_keys_that_are_written_at_the_same_time_to_a_new_config_map_are_all_kept() -> None:
    async with server() as (_, client):
        maps = OwnConfigMaps(client, OWN)
        await asyncio.gather(
            *(maps.write(OWN, NAME, {key: "1"}) for key in ("records", "moves", "evictions"))
        )
        assert await maps.read(OWN, NAME) == {"records": "1", "moves": "1", "evictions": "1"}


@pytest.mark.parametrize("status", [403, 404])
async def test_F1_without_the_usual_namespace_the_own_one_is_used(status: int) -> None:
    """Permissions for a namespace that does not exist do not exist: the server says 403."""
    async with server() as (api, client):
        if status == 403:
            for method in ("PATCH", "GET"):
                api.fault(f"{method} {IN_USUAL}/{NAME}", status=status)
        api.fault(f"POST {IN_USUAL}", status=status)
        maps = OwnConfigMaps(client, OWN)
        await maps.write(USUAL, NAME, {"records": "1"})
        (stored,) = api.all(CONFIG_MAPS)
        assert stored["metadata"]["namespace"] == OWN
        assert (await maps.read(USUAL, NAME))["records"] == "1"


async def test_F1_an_error_of_the_server_is_no_missing_object() -> None:
    async with server() as (api, client):
        api.fault(f"GET {IN_USUAL}/{NAME}", status=500)
        with pytest.raises(ApiError):
            await OwnConfigMaps(client, OWN).read(USUAL, NAME)
