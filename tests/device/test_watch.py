"""The device plugin follows objects by the same list and watch as the scheduler."""

from __future__ import annotations

import asyncio

from ringwise.device.watch import ObjectWatch
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.resources import PODS as POD_KIND
from ringwise.manifests.text.wire import PodWire
from tests.kube.harness import PODS, InstantClock, pod, server, until


class Followed:
    """Pods as the watch tells them."""

    def __init__(self, client: Client) -> None:
        self.names: set[str] = set()
        self.lists = 0
        self.clock = InstantClock()
        self.watch = ObjectWatch(
            client,
            "pods",
            POD_KIND.path(),
            {},
            PodWire,
            clock=self.clock,
            listed=self._listed,
            changed=self._changed,
        )

    def _listed(self, found: list[PodWire], version: int) -> None:
        assert version > 0
        self.lists += 1
        self.names = {self._name(one) for one in found}

    def _changed(self, kind: str, one: PodWire) -> None:
        (self.names.discard if kind == "DELETED" else self.names.add)(self._name(one))

    def _name(self, one: PodWire) -> str:
        return one.metadata.name or ""


async def test_a_list_that_expires_between_pages_is_read_without_pages() -> None:
    async with server() as (api, client):
        for index in range(6):
            api.put(PODS, pod(f"pod-{index}"))
        api.fault(lambda method, path: api.count("GET /api/v1/pods") == 2, status=410)
        one = Followed(client)
        one.watch._page_size = 2
        running = asyncio.create_task(one.watch.run())
        await one.watch.synced.wait()
        assert (len(one.names), one.lists) == (6, 1)
        assert api.count("GET /api/v1/pods") <= 4
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_one_object_that_cannot_be_read_costs_no_other() -> None:
    async with server() as (api, client):
        api.put(PODS, pod("a"))
        one = Followed(client)
        running = asyncio.create_task(one.watch.run())
        await one.watch.synced.wait()
        broken = pod("broken")
        broken["spec"]["priority"] = "high"
        api.put(PODS, broken)
        api.put(PODS, pod("b"))
        api.remove(PODS, "default/a")
        await until(lambda: one.names == {"b"})
        assert one.lists == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
