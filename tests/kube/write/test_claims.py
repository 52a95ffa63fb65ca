"""The node and the volume of a claim are written once, for that claim alone; what cannot be is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ringwise.kube.write.object_writers import ClaimWriter
from ringwise.kubeclient.retry import GivenUpError, Retrier
from ringwise.messages.commands import BindVolume, SelectNode
from ringwise.messages.events import ClaimFailed
from tests.event_loop import run
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import InstantClock, server

CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
SELECT = SelectNode("team", "data", "c-1", "node-7")
BIND = BindVolume("disk", "team", "data", "c-1")
OURS = {"namespace": "team", "name": "data", "uid": "c-1"}


def done(
    command: SelectNode | BindVolume,
    prepare: Callable[[FakeApiServer], object],
    uid: str = "c-1",
    **spec: Any,
) -> tuple[FakeApiServer, list[ClaimFailed]]:
    """The API server after the command, and what is told."""
    apis: list[FakeApiServer] = []
    failed: list[ClaimFailed] = []

    async def story() -> None:
        async with server() as (api, client):
            api.put(CLAIMS, {"metadata": {"namespace": "team", "name": "data", "uid": uid}, "spec": {}})
            api.put(VOLUMES, {"metadata": {"name": "disk", "uid": "v-1"}, "spec": spec})
            prepare(api)
            apis.append(api)
            writer = ClaimWriter(client, Retrier(InstantClock()), failed.append)
            try:
                if isinstance(command, SelectNode):
                    await writer.select_node(command)
                else:
                    await writer.bind_volume(command)
            except GivenUpError:
                assert failed

    run(story())
    return apis[0], failed


def nothing(api: FakeApiServer) -> None:
    """The API server works."""


def busy(api: FakeApiServer) -> None:
    api.fault("PATCH", status=503, times=2)


def test_the_selected_node_is_an_annotation_of_the_claim() -> None:
    for prepare in (nothing, busy):
        api, failed = done(SELECT, prepare=prepare)
        written = api.get(CLAIMS, "team/data")["metadata"]["annotations"]
        assert written == {"volume.kubernetes.io/selected-node": "node-7"}
        assert not failed


def test_a_claim_that_was_made_again_gets_no_node() -> None:
    api, failed = done(SELECT, uid="another", prepare=nothing)
    assert "annotations" not in api.get(CLAIMS, "team/data")["metadata"]
    assert [one.key for one in failed] == ["team/data"]


def test_a_claim_that_is_gone_is_told() -> None:
    _, failed = done(SELECT, prepare=lambda api: api.remove(CLAIMS, "team/data"))
    assert [one.key for one in failed] == ["team/data"]


@pytest.mark.parametrize("reserved", [{}, {"claimRef": {"namespace": "team", "name": "data"}}])
def test_a_volume_is_given_to_the_claim(reserved: dict[str, Any]) -> None:
    api, failed = done(BIND, prepare=busy, **reserved)
    written = api.get(VOLUMES, "disk")
    assert OURS.items() <= written["spec"]["claimRef"].items()
    annotations = written["metadata"].get("annotations", {})
    assert (annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}) == (not reserved)
    assert not failed


def test_a_volume_that_has_the_claim_already_is_not_written_again() -> None:
    api, failed = done(BIND, prepare=nothing, claimRef=OURS)
    assert not api.count("PATCH")
    assert not failed


@pytest.mark.parametrize(
    "other", [{**OURS, "name": "other"}, {**OURS, "uid": "c-0"}, {**OURS, "namespace": "else"}]
)
def test_a_volume_of_another_claim_stays_as_it_is(other: dict[str, str]) -> None:
    api, failed = done(BIND, prepare=nothing, claimRef=other)
    assert api.get(VOLUMES, "disk")["spec"]["claimRef"] == other
    (told,) = failed
    assert told.key == "team/data"
    assert f"volume disk is for claim {other['namespace']}/{other['name']}" in told.why


def test_a_volume_that_is_gone_and_a_server_that_refuses_are_told() -> None:
    _, failed = done(BIND, prepare=lambda api: api.remove(VOLUMES, "disk"))
    assert [one.key for one in failed] == ["team/data"]
    _, failed = done(BIND, prepare=lambda api: api.fault("PATCH", status=403, times=9))
    assert [one.key for one in failed] == ["team/data"]
