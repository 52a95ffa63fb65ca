"""The verbs to the API server: which answers are not an error, and what a repetition reads again."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.kubeclient.client import MAX_CONFLICTS, ApiError, Client, IgnoredStatus, run
from ringwise.kubeclient.config import direct
from ringwise.kubeclient.connection_pool import Connections
from ringwise.kubeclient.resources import CONFIG_MAPS
from ringwise.manifests.text.wire import ConfigMapWire
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import server

PATH = "/api/v1/configmaps"
Body = dict[str, Any]


def put(api: FakeApiServer, **data: str) -> Body:
    return api.put(PATH, {"metadata": {"name": "map", "namespace": "ns"}, "data": data})


def data(api: FakeApiServer) -> Body:
    return dict(api.get(PATH, "ns/map")["data"])


async def test_what_is_not_found_is_none_and_other_answers_are_errors() -> None:
    async with server() as (api, client):
        assert await client.find(CONFIG_MAPS, "ns", "map", ConfigMapWire) is None
        put(api, a="1")
        found = await client.find(CONFIG_MAPS, "ns", "map", ConfigMapWire)
        assert found is not None
        assert found.data == {"a": "1"}
        api.fault("GET", status=403)
        with pytest.raises(ApiError, match="403"):
            await client.find(CONFIG_MAPS, "ns", "map", ConfigMapWire)


async def test_what_exists_is_not_created_and_a_conflict_does_not_mean_that_it_exists() -> None:
    async with server() as (api, client):
        body = {"metadata": {"name": "map"}, "data": {"a": "2"}}
        assert await client.create_if_missing(CONFIG_MAPS, "ns", body)
        made = api.get(PATH, "ns/map")
        assert (made["apiVersion"], made["kind"], made["data"]) == ("v1", "ConfigMap", {"a": "2"})
        put(api, a="1")
        assert await client.create_if_missing(CONFIG_MAPS, "ns", body) is None
        assert data(api) == {"a": "1"}
        api.fault("POST", status=409)
        with pytest.raises(ApiError, match="409 Conflict"):
            await client.create_if_missing(CONFIG_MAPS, "ns", {"metadata": {"name": "other"}})


async def test_a_deletion_tells_whether_the_object_was_there() -> None:
    async with server() as (api, client):
        put(api)
        assert not await client.delete(CONFIG_MAPS, "ns", "map", uid="of an earlier one")
        assert await client.delete(CONFIG_MAPS, "ns", "map")
        assert not await client.delete(CONFIG_MAPS, "ns", "map")
        api.fault("DELETE", status=409)
        with pytest.raises(ApiError, match="409"):
            await client.delete(CONFIG_MAPS, "ns", "map")


async def test_components_own_what_they_apply_and_leave_the_rest() -> None:
    async with server() as (api, client), Client(direct(api.url), component="cli") as other:
        await client.apply(CONFIG_MAPS, "ns", "map", {"data": {"a": "1", "b": "1"}})
        await other.apply(CONFIG_MAPS, "ns", "map", {"data": {"c": "1"}})
        await client.patch(CONFIG_MAPS, "ns", "map", {"data": {"d": "1"}})
        await client.apply(CONFIG_MAPS, "ns", "map", {"data": {"a": "2"}})
        assert data(api) == {"a": "2", "c": "1", "d": "1"}
        with pytest.raises(ApiError, match="409 Conflict"):
            await other.apply(CONFIG_MAPS, "ns", "map", {"data": {"a": "3"}}, force=False)
        await other.apply(CONFIG_MAPS, "ns", "map", {"data": {"a": "3"}})
        assert data(api) == {"a": "3", "d": "1"}
        version = {"metadata": {"resourceVersion": "1"}, "data": {"a": "4"}}
        with pytest.raises(ApiError, match="409 Conflict"):
            await client.apply(CONFIG_MAPS, "ns", "map", version)


async def test_an_update_creates_changes_or_leaves_the_object() -> None:
    async with server() as (api, client):
        seen: list[Any] = []

        def change(found: ConfigMapWire | None) -> Body | None:
            seen.append(None if found is None else found.data)
            return None if len(seen) > 2 else {"data": {str(len(seen)): "x"}}

        async def update() -> bool:
            return await client.update(CONFIG_MAPS, "ns", "map", ConfigMapWire, change)

        assert [await update() for _ in range(3)] == [True, True, False]
        assert seen == [None, {"1": "x"}, {"1": "x", "2": "x"}]
        assert data(api) == {"1": "x", "2": "x"}


@pytest.mark.parametrize("exists", [True, False])
async def test_an_update_after_which_another_client_wrote_is_made_of_what_that_client_wrote(
    exists: bool,
) -> None:
    async with server() as (api, client):
        if exists:
            put(api, turns="0")
        turns = 0

        def change(found: ConfigMapWire | None) -> Body:
            nonlocal turns
            turns += 1
            if turns < MAX_CONFLICTS:
                put(api, turns=str(turns))
            return {"data": {"seen": (found.data or {})["turns"] if found is not None else "nothing"}}

        assert await client.update(CONFIG_MAPS, "ns", "map", ConfigMapWire, change)
        last = str(MAX_CONFLICTS - 1)
        assert data(api) == {"turns": last, "seen": last}


async def test_an_update_that_always_meets_others_is_given_up_and_other_errors_at_once() -> None:
    async with server() as (api, client):
        turns: list[Body] = []

        def change(found: ConfigMapWire | None) -> Body:
            turns.append(put(api, turn=str(len(turns))))
            return {"data": {}}

        with pytest.raises(ApiError, match="409 Conflict"):
            await client.update(CONFIG_MAPS, "ns", "map", ConfigMapWire, change)
        assert len(turns) == MAX_CONFLICTS
        api.fault("PATCH", status=403)
        with pytest.raises(ApiError, match="403"):
            await client.update(CONFIG_MAPS, "ns", "map", ConfigMapWire, lambda found: {"data": {}})


def test_only_the_named_statuses_are_ignored() -> None:
    with IgnoredStatus(403, 404):
        raise ApiError(404, "NotFound", "")
    with pytest.raises(ApiError, match="409"), IgnoredStatus(403, 404):
        raise ApiError(409, "Conflict", "")
    with pytest.raises(LookupError), IgnoredStatus(404):
        raise LookupError


def test_work_without_an_event_loop_gets_a_client_that_is_closed_afterwards() -> None:
    async def work(client: Client) -> Connections:
        connections, _ = await client._pool.acquire({})
        await connections.release()
        assert not connections.session.closed
        return connections

    opened = run(direct("http://nowhere"), work)
    assert opened.session.closed
    assert opened.session.headers["User-Agent"].startswith("ringwise-cli/")
