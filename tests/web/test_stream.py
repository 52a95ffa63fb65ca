"""The stream of changes over real sockets: differences, resets, leaders, and clients that do not read."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib

import pytest
from aiohttp import ClientSession

from ringwise.metrics.connections import OpenConnections
from tests.builders.values import gang, node
from tests.tools.schemas import check_document
from tests.web.client import Mirror
from tests.web.rig import TestCore, address_of, dashboard


async def test_changes_bring_a_client_to_the_next_snapshot() -> None:
    async with dashboard() as at:
        first = await at.snapshot()
        mirror = Mirror.of_document(first)
        async with at.stream(first["epoch"], first["sequence"]) as events:
            for number in range(3):
                at.core.tell([*gang(f"j{number}", 1, 8), node(f"extra{number}")])
                name, change = await anext(events)
                assert (name, change["sequence"]) == ("change", number + 1)
                mirror.apply(change)
        last = await at.snapshot()
        assert (last["epoch"], last["sequence"]) == (first["epoch"], 3)
        assert mirror.plain() == Mirror.of_document(last).plain()


async def test_a_client_that_was_away_gets_the_difference() -> None:
    async with dashboard() as at:
        first = await at.snapshot()
        mirror = Mirror.of_document(first)
        for number in range(3):
            at.core.tell(gang(f"j{number}", 1, 8))
            await at.hub.refresh()
        async with at.stream(first["epoch"], 1) as events:
            assert [(await anext(events))[1]["sequence"] for _ in range(2)] == [2, 3]
        async with at.stream(first["epoch"], 0) as events:
            for _ in range(3):
                mirror.apply((await anext(events))[1])
        assert mirror.plain() == Mirror.of_document(await at.snapshot()).plain()


@pytest.mark.parametrize("since", [0, 999])
async def test_a_sequence_that_is_too_old_or_unknown_is_a_reset(since: int) -> None:
    async with dashboard(max_history_frames=2) as at:
        first = await at.snapshot()
        for number in range(4):
            at.core.tell(gang(f"j{number}", 1, 8))
            await at.hub.refresh()
        async with at.stream(first["epoch"], since) as events:
            assert [event async for event in events] == [("reset", {"epoch": first["epoch"], "sequence": 4})]


async def test_history_keeps_few_bytes() -> None:
    async with dashboard(max_history_bytes=3000) as at:
        await at.snapshot()
        for number in range(30):
            at.core.tell(gang(f"j{number}", 1, 1))
            await at.hub.refresh()
        assert at.hub.history.last == 30
        assert 0 < len(at.hub.history) < 10


async def test_another_scheduler_is_another_epoch() -> None:
    async with dashboard() as at:
        first = await at.snapshot()
        async with at.stream(first["epoch"], first["sequence"]) as events:
            at.core.restart()
            name, reset = await anext(events)
            assert name == "reset"
        again = await at.snapshot()
        assert again["epoch"] == reset["epoch"] != first["epoch"]
        assert Mirror.of_document(again).plain() == Mirror.of_document(first).plain()


async def test_another_process_is_another_epoch() -> None:
    core = TestCore()
    async with dashboard(core) as at:
        first = await at.snapshot()
    async with dashboard(core) as at, at.stream(first["epoch"], first["sequence"]) as events:
        assert (await anext(events))[0] == "reset"


async def test_a_new_board_is_a_reset() -> None:
    async with dashboard() as at:
        first = await at.snapshot()
        async with at.stream(first["epoch"], first["sequence"]) as events:
            at.core.tell([node("card-1", 2, labels={"accelerator-type": "card"})])
            assert (await anext(events))[0] == "reset"
        boards = (await at.snapshot())["boards"]
        assert len(boards) == 2


async def test_a_replica_that_does_not_lead_says_who_does() -> None:
    core = TestCore()
    async with dashboard(core) as at:
        first = await at.snapshot()
        path = f"{at.url}api/v1/stream?epoch={first['epoch']}&since={first['sequence']}"
        async with at.session.get(path) as response:
            assert response.headers["Connection"] == "close"
        async with at.stream(first["epoch"], first["sequence"]) as events:
            core.leading = False
            assert [event async for event in events] == [
                ("leader", {"leader": "replica-2", "address": "https://10.0.0.2:8090/"})
            ]
        status, document = await at.get("api/v1/snapshot")
        assert (status, document["error"]["code"]) == (503, "not-leading")
        assert document["error"]["leader"] == "replica-2"
        check_document(document)


STANDBY_PATHS = ["api/v1/snapshot", "api/v1/series", "api/v1/nodes/n1", "api/v1/jobs/default/a/why"]


@pytest.mark.parametrize("path", STANDBY_PATHS)
async def test_a_replica_that_does_not_lead_keeps_no_connection(path: str) -> None:
    """Behind a Service a client reaches another replica by another connection only."""
    core = TestCore()
    core.tell(gang("a", 1, 1))
    async with dashboard(core) as at:

        async def closes(asked: str) -> tuple[int, bool]:
            async with at.session.get(f"{at.url}{asked}") as response:
                return response.status, response.headers.get("Connection") == "close"

        assert await closes(path) == (200, False)
        assert await closes("") == (200, False)
        core.leading = False
        assert await closes(path) == (503, True)
        # It may be the first that asks for the state of this replica: files follow what is known by then.
        assert (await at.get("api/v1/snapshot"))[0] == 503
        assert await closes("") == (200, True)
        core.leading = True
        assert (await closes(path))[0] == 200
        await at.snapshot()
        assert await closes("") == (200, False)


async def test_nothing_is_recorded_once_nobody_has_looked_for_a_while() -> None:
    looked_at = TestCore()
    async with dashboard(looked_at) as at:
        await at.snapshot()
        assert _records(looked_at)
    core = TestCore()
    async with dashboard(core, idle_timeout=0.02) as at:
        first = await at.snapshot()
        while _records(core):
            await asyncio.sleep(0.005)
        async with at.stream(first["epoch"], first["sequence"]) as events:
            assert (await anext(events))[0] == "reset"


async def test_all_clients_share_one_encoding() -> None:
    async with dashboard(read_interval=0.05) as at:
        first = await at.snapshot()
        async with (
            at.stream(first["epoch"], 0) as one,
            at.stream(first["epoch"], 0) as two,
            at.stream(first["epoch"], 0) as three,
        ):
            at.core.tell(gang("train", 1, 8))
            found = [(await anext(events))[1] for events in (one, two, three)]
        assert found[0] == found[1] == found[2]
        assert at.hub.history.last == 1


async def test_a_stream_is_a_valid_gzip_stream_to_its_end() -> None:
    core = TestCore()
    async with dashboard(core) as at, ClientSession(auto_decompress=False) as session:
        first = await at.snapshot()
        url = f"{at.url}api/v1/stream?epoch={first['epoch']}&since=0"
        async with session.get(url, headers={"Accept-Encoding": "gzip"}) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            packed = b""
            for number in range(3):
                core.tell(gang(f"j{number}", 1, 8))
                # Every event can be read as soon as it is there.
                while f'"sequence":{number + 1},'.encode() not in _unpacked(packed):
                    packed += await response.content.readany()
            core.leading = False
            text = gzip.decompress(packed + await response.read()).decode()
        assert text.count("event: change") == 3
        assert text.count("event: leader") == 1
        async with session.get(url, headers={"Accept-Encoding": "identity"}) as response:
            assert "Content-Encoding" not in response.headers
            assert b"event: leader" in await response.read()


async def test_a_client_that_does_not_read_is_cut_off_and_holds_nothing() -> None:
    names = [f"{number}-" + "x" * 2000 for number in range(100)]
    core = TestCore(*map(node, names))
    async with dashboard(core, connections=OpenConnections(write_timeout=0.2)) as at:
        first = await at.snapshot()
        host, port = address_of(at)
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(reader, (host, port))
        path = f"/api/v1/stream?epoch={first['epoch']}&since=0"
        await loop.sock_sendall(reader, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        while not at.hub.streams:
            await asyncio.sleep(0.005)
        ready = True
        while at.hub.streams:
            # Each round is some 200 kB, and the client reads none of them.
            ready = not ready
            core.tell([node(name, unschedulable=not ready) for name in names])
            await at.hub.refresh()
            await asyncio.sleep(0.005)
        reader.close()
        assert (await at.snapshot())["epoch"] == first["epoch"]


async def test_there_is_a_limit_to_streams() -> None:
    async with dashboard(max_streams=1) as at:
        first = await at.snapshot()
        async with at.stream(first["epoch"], 0):
            status, document = await at.get(f"api/v1/stream?epoch={first['epoch']}&since=0")
            assert (status, document["error"]["code"]) == (503, "too-many-streams")


@pytest.mark.parametrize("since", ["", "x", "-1", "9" * 40, "1e3"])
async def test_a_sequence_must_be_a_number(since: str) -> None:
    async with dashboard() as at:
        status, document = await at.get(f"api/v1/stream?epoch=x&since={since}")
        assert (status, document["error"]["code"]) == (400, "bad-request")


def _unpacked(packed: bytes) -> bytes:
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed)


def _records(core: TestCore) -> bool:
    return core.scheduler._state.changes.recording
