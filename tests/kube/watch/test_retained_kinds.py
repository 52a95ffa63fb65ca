"""A custom resource of ours that is not served is not an empty list, and its conditions are written once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ringwise.kube.watch.kinds import WatchTarget
from ringwise.kube.watch.readers import Observed, ObservedConditions, PlainReader
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.fence import Fence
from ringwise.kube.write.status import StatusWriter, merged_conditions
from ringwise.manifests.kinds import KIND_OF
from ringwise.manifests.text.errors import Findings
from ringwise.messages import events as ev
from ringwise.messages.commands import Condition, SetConditions
from ringwise.state.model import NodeReservation
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import InstantClock, server, until
from tests.kube.watch.test_reflector import watching

COLLECTION = "/apis/ringwise.io/v1alpha1/nodereservations"
KIND = KIND_OF[NodeReservation]
NOW = "2026-01-01T00:00:00Z"


def reservation(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "generation": 1},
        "spec": {
            "nodeNames": ["n1"],
            "holder": {"queue": "q"},
            "startTime": "2026-01-31T08:00:00Z",
            "endTime": "2026-01-31T09:00:00Z",
        },
    }


def names(events: list[ev.Event]) -> list[str]:
    """What happened, in words."""
    found = []
    for event in events:
        match event:
            case ev.NodeReservationSeen():
                found.append(f"+{event.reservation.name}")
            case ev.NodeReservationGone():
                found.append(f"-{event.name}")
            case ev.KindServed():
                found.append("served" if event.served else "not served")
    return found


def removed(api: FakeApiServer) -> None:
    """As the API server does it: objects first."""
    api.terminating.add("nodereservations")
    for name in ("a", "b"):
        api.remove(COLLECTION, name)


def forgotten(api: FakeApiServer) -> None:
    api.unknown.add("nodereservations")
    api.cut_watches()


def listed_empty(api: FakeApiServer) -> None:
    """The watch is interrupted while the objects are deleted."""
    api.cut_watches()
    removed(api)
    api.forget_history()


LOSSES = {"the CRD is deleted": removed, "the kind is unknown": forgotten, "a new list": listed_empty}


@pytest.mark.parametrize("case", LOSSES)
async def test_what_is_not_served_stays_until_a_list_succeeds(case: str) -> None:
    lose: Callable[[FakeApiServer], None] = LOSSES[case]
    async with server() as (api, client):
        api.put(COLLECTION, reservation("a"))
        api.put(COLLECTION, reservation("b"))
        async with watching(client, WatchTarget.of(KIND, KIND.watches[0]), PlainReader(KIND)) as one:
            await one.reflector.synced.wait()
            lose(api)
            await until(lambda: "not served" in names(one.events))
            assert names(one.events) == ["+a", "+b", "not served"]
            api.terminating.clear()
            api.unknown.clear()
            api.collections[COLLECTION] = {}
            api.put(COLLECTION, reservation("b"))
            api.forget_history()
            api.cut_watches()
            await until(lambda: "served" in names(one.events))
            assert "-a" in names(one.events)
            assert "-b" not in names(one.events)


async def test_one_that_is_deleted_is_gone() -> None:
    async with server() as (api, client):
        api.put(COLLECTION, reservation("a"))
        async with watching(client, WatchTarget.of(KIND, KIND.watches[0]), PlainReader(KIND)) as one:
            await one.reflector.synced.wait()
            api.remove(COLLECTION, "a")
            await until(lambda: names(one.events) == ["+a", "-a"])
            api.put(COLLECTION, reservation("a"))
            await until(lambda: names(one.events) == ["+a", "-a", "+a"])


async def test_one_that_is_created_again_at_once_is_kept() -> None:
    """Both changes may arrive together."""
    async with server() as (api, client):
        api.put(COLLECTION, reservation("a"))
        async with watching(client, WatchTarget.of(KIND, KIND.watches[0]), PlainReader(KIND)) as one:
            await one.reflector.synced.wait()
            api.remove(COLLECTION, "a")
            new = reservation("a")
            new["spec"]["holder"] = {"queue": "other"}
            api.put(COLLECTION, new)
            api.put(COLLECTION, reservation("b"))
            await until(lambda: "+b" in names(one.events))
            api.remove(COLLECTION, "b")
            await until(lambda: "-b" in names(one.events))
            assert [name for name in names(one.events) if name.endswith("a")][-1] == "+a"


ACCEPTED = {
    "type": "Accepted",
    "status": "True",
    "reason": "Accepted",
    "message": "",
    "observedGeneration": 2,
    "lastTransitionTime": "before",
}
WANTED = SetConditions("NodeReservation", "a", 2, (Condition("Accepted", True, "Accepted"),))

MERGED: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "there is none": ((), [ACCEPTED | {"lastTransitionTime": NOW}]),
    "it is as it should be": ((ACCEPTED,), []),
    "of an older generation": ((ACCEPTED | {"observedGeneration": 1},), [ACCEPTED]),
    "another status": ((ACCEPTED | {"status": "False"},), [ACCEPTED | {"lastTransitionTime": NOW}]),
    "another reason": ((ACCEPTED | {"reason": "x"},), [ACCEPTED]),
    "one of an older version": ((ACCEPTED, {"type": "Old", "status": "True"}), [ACCEPTED]),
    "the object is gone": (None, []),
}


@pytest.mark.parametrize("case", MERGED)
def test_which_conditions_are_written(case: str) -> None:
    observed, written = MERGED[case]
    assert merged_conditions(WANTED, observed, NOW) == written


async def test_conditions_are_written_once_and_only_of_objects_that_exist() -> None:
    async with server() as (api, client):
        clock = InstantClock()
        fence = Fence(clock)
        fence.open_forever()
        api.put(COLLECTION, reservation("a"))
        observed: ObservedConditions = {}
        reader, found = PlainReader(KIND, conditions=observed), Findings("a")

        def see() -> None:
            reader.read(msgspec.Raw(msgspec.json.encode(copy.deepcopy(api.get(COLLECTION, "a")))), found)

        see()
        assert not found.errors
        writer = StatusWriter(WriteContext(client, fence, clock), Observed(conditions=observed))
        for name in ("a", "gone"):
            writer.custom_resource(SetConditions("NodeReservation", name, 2, WANTED.conditions))
        await writer.finish()
        (condition,) = api.get(COLLECTION, "a")["status"]["conditions"]
        assert (condition["type"], condition["observedGeneration"]) == ("Accepted", 2)
        see()
        before = len(api.requests)
        writer.custom_resource(WANTED)
        await writer.finish()
        assert len(api.requests) == before
        reader.forget("a")
        assert observed == {}
        await writer.stop()
