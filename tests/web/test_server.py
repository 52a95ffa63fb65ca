"""The dashboard's server over real sockets: documents, the stream, and requests that it must refuse."""

from __future__ import annotations

import asyncio
import gzip
import io
import socket
import zlib
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientSession

from ringwise.apps.web.answers import SchedulerAnswers
from ringwise.log import ERROR, Logger
from ringwise.messages import events as ev
from ringwise.web import openapi
from ringwise.web.addresses import is_loopback
from ringwise.web.connections import OpenConnections
from ringwise.web.frames import FrameHistory
from ringwise.web.guard import CONTENT_SECURITY_POLICY, Guard
from tests.scheduler.clusters import gang, node
from tests.tools.schemas import check_document
from tests.web.client import Mirror
from tests.web.rig import Dashboard, TestCore, dashboard, run

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: asked}
spec:
  minAvailable: 1
  schedulerName: volcano
  tasks:
    - name: worker
      replicas: 1
      template:
        spec:
          containers:
            - {name: main, image: x, resources: {limits: {huawei.com/Ascend910: 4}}}
"""


# -- documents -------------------------------------------------------------------------------------


def test_every_document_keeps_to_its_schema() -> None:
    async def story() -> None:
        core = TestCore()
        core.tell([*gang("runs", 2, 8), *gang("waits", 9, 8)])
        async with dashboard(core) as at:
            seen = set()
            for path in (
                "api/v1/snapshot",
                "api/v1/series",
                "api/v1/jobs/default/runs",
                "api/v1/jobs/default/waits/why",
                "api/v1/nodes/n1",
                "api/v1/nodes/none",
            ):
                _, document = await at.get(path)
                seen.add(check_document(document))
            async with at.session.post(f"{at.url}api/v1/what-if", data=JOB) as response:
                answer = await response.json()
                assert (response.status, answer["jobs"][0]["outcome"]) == (200, "placed"), answer
                seen.add(check_document(answer))
            core.tell(gang("new", 1, 1))
            snapshot = await at.snapshot()
            core.tell(gang("newer", 1, 1))
            async with at.stream(snapshot["epoch"], snapshot["sequence"]) as events:
                name, change = await anext(events)
                assert name == "change"
                seen.add(check_document(change))
        assert seen == {
            f"ringwise.io/{name}/v1"
            for name in ("dashboard", "dashboard-change", "dashboard-job", "dashboard-node")
        } | {f"ringwise.io/{name}/v1" for name in ("error", "place", "series", "why")}

    run(story())


def test_a_job_with_its_pods_and_a_node_with_its_chips() -> None:
    async def story() -> None:
        core = TestCore()
        core.tell(gang("runs", 2, 8))
        async with dashboard(core) as at:
            _, job = await at.get("api/v1/jobs/default/runs")
            assert [(pod["node"], pod["chips"]) for pod in job["pods"]] == [
                ("n1", list(range(8))),
                ("n2", list(range(8))),
            ]
            assert job["board"] == "910-x8"
            _, found = await at.get("api/v1/nodes/n1")
            assert {chip["job"] for chip in found["chips"]} == {"default/runs"}
            assert found["node"]["holders"] == [job["job"]["id"]] * 8
            assert found["pods"][0]["chips"] == list(range(8))

    run(story())


@pytest.mark.parametrize(
    "path",
    [
        "api/v1/jobs/default/none",
        "api/v1/jobs/default/none/why",
        "api/v1/jobs/default/none/story",
        "api/v1/nodes/none",
        "api/v1/unknown",
        "page/none.js",
        "page/../guard.py",
        "page/%2e%2e/guard.py",
        "page/..%2fguard.py",
        "page//etc/passwd",
        "page/%00",
        "elsewhere",
    ],
)
def test_what_is_not_there_is_404(path: str) -> None:
    async def story() -> None:
        async with dashboard() as at:
            host, port = _address(at)
            raw = await _raw(host, port, f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            assert raw.startswith(b"HTTP/1.1 404 "), raw
            assert b'"error":{"code":"' in raw

    run(story())


def test_a_what_if_changes_nothing() -> None:
    async def story() -> None:
        async with dashboard() as at:
            before = await at.snapshot()
            async with at.session.post(f"{at.url}api/v1/what-if", data=JOB) as response:
                assert (await response.json())["jobs"][0]["pods"][0]["node"] == "n1"
            after = await at.snapshot()
            assert (after["sequence"], after["nodes"]) == (before["sequence"], before["nodes"])

    run(story())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "broken YAML"),
        ("", "no job"),
        ("kind: Nothing", "manifest"),
        (JOB.replace("replicas: 1", "replicas: 999999"), "pods"),
        (JOB.replace("name: asked", "name: NOT/valid"), "name"),
        ("[" * 5000, "manifest"),
    ],
)
def test_a_bad_manifest_is_refused_with_its_error(text: str, says: str) -> None:
    async def story() -> None:
        async with dashboard() as at, at.session.post(f"{at.url}api/v1/what-if", data=text) as response:
            document = await response.json()
            assert response.status == 400, document
            assert says in document["error"]["message"]

    run(story())


def test_a_what_if_about_a_job_that_exists_is_refused() -> None:
    async def story() -> None:
        core = TestCore()
        core.tell(gang("train", 1, 1))
        text = JOB.replace("kind: Job", "kind: PodGroup").split("spec:")[0].replace("batch", "scheduling")
        text = text.replace("v1alpha1", "v1beta1").replace("asked", "train") + "spec: {minMember: 1}"
        async with dashboard(core) as at, at.session.post(f"{at.url}api/v1/what-if", data=text) as response:
            assert response.status == 400
            assert (await response.json())["error"]["code"] == "already-there"

    run(story())


def test_the_openapi_document_names_every_route() -> None:
    document = openapi.openapi_document()
    assert document["openapi"].startswith("3.1")

    async def story() -> None:
        async with dashboard() as at:
            status, served = await at.get("api/v1/openapi.json")
            assert (status, served["paths"].keys()) == (200, document["paths"].keys())
            async with at.session.get(f"{at.url}api/") as response:
                page = await response.text()
            assert all(path in page for path in document["paths"])
            assert "<script" not in page
            assert "style=" not in page

    run(story())
    for part in _references(document):
        assert part in document["components"]["schemas"]


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if "$ref" in value else set()
        return own.union(*map(_references, value.values()))
    return set().union(*map(_references, value)) if isinstance(value, list) else set()


# -- the stream ------------------------------------------------------------------------------------


def test_changes_bring_a_client_to_the_next_snapshot() -> None:
    async def story() -> None:
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

    run(story())


def test_a_client_that_was_away_gets_the_difference() -> None:
    async def story() -> None:
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

    run(story())


@pytest.mark.parametrize("since", [0, 999])
def test_a_sequence_that_is_too_old_or_unknown_is_a_reset(since: int) -> None:
    async def story() -> None:
        async with dashboard(history=lambda: FrameHistory(max_frames=2)) as at:
            first = await at.snapshot()
            for number in range(4):
                at.core.tell(gang(f"j{number}", 1, 8))
                await at.hub.refresh()
            async with at.stream(first["epoch"], since) as events:
                assert [event async for event in events] == [
                    ("reset", {"epoch": first["epoch"], "sequence": 4})
                ]

    run(story())


def test_history_keeps_few_bytes() -> None:
    async def story() -> None:
        async with dashboard(history=lambda: FrameHistory(max_bytes=3000)) as at:
            await at.snapshot()
            for number in range(30):
                at.core.tell(gang(f"j{number}", 1, 1))
                await at.hub.refresh()
            assert at.hub.history.last == 30
            assert 0 < len(at.hub.history) < 10

    run(story())


def test_another_scheduler_is_another_epoch() -> None:
    async def story() -> None:
        async with dashboard() as at:
            first = await at.snapshot()
            async with at.stream(first["epoch"], first["sequence"]) as events:
                at.core.restart()
                name, reset = await anext(events)
                assert name == "reset"
            again = await at.snapshot()
            assert again["epoch"] == reset["epoch"] != first["epoch"]
            assert Mirror.of_document(again).plain() == Mirror.of_document(first).plain()

    run(story())


def test_another_process_is_another_epoch() -> None:
    async def story() -> None:
        core = TestCore()
        async with dashboard(core) as at:
            first = await at.snapshot()
        async with dashboard(core) as at, at.stream(first["epoch"], first["sequence"]) as events:
            assert (await anext(events))[0] == "reset"

    run(story())


def test_a_new_board_is_a_reset() -> None:
    async def story() -> None:
        async with dashboard() as at:
            first = await at.snapshot()
            async with at.stream(first["epoch"], first["sequence"]) as events:
                at.core.tell([node("card-1", 2, labels={"accelerator-type": "card"})])
                assert (await anext(events))[0] == "reset"
            boards = (await at.snapshot())["boards"]
            assert len(boards) == 2

    run(story())


def test_a_replica_that_does_not_lead_says_who_does() -> None:
    async def story() -> None:
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

    run(story())


STANDBY_PATHS = ["api/v1/snapshot", "api/v1/series", "api/v1/nodes/n1", "api/v1/jobs/default/a/why"]


@pytest.mark.parametrize("path", STANDBY_PATHS)
def test_a_replica_that_does_not_lead_keeps_no_connection(path: str) -> None:
    """Behind a Service a client reaches another replica by another connection only."""

    async def story() -> None:
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

    run(story())


def test_nothing_is_recorded_once_nobody_has_looked_for_a_while() -> None:
    async def story() -> None:
        core = TestCore()
        async with dashboard(core, idle_timeout=0.02) as at:
            first = await at.snapshot()
            assert _records(core)
            while _records(core):
                await asyncio.sleep(0.005)
            async with at.stream(first["epoch"], first["sequence"]) as events:
                assert (await anext(events))[0] == "reset"

    run(story())


def test_all_clients_share_one_encoding() -> None:
    async def story() -> None:
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

    run(story())


def test_a_stream_is_a_valid_gzip_stream_to_its_end() -> None:
    async def story() -> None:
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

    run(story())


def test_a_client_that_does_not_read_is_cut_off_and_holds_nothing() -> None:
    async def story() -> None:
        names = [f"{number}-" + "x" * 2000 for number in range(100)]
        core = TestCore(*map(node, names))
        async with dashboard(core, write_timeout=0.2) as at:
            first = await at.snapshot()
            host, port = _address(at)
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

    run(story())


def test_there_is_a_limit_to_streams() -> None:
    async def story() -> None:
        async with dashboard(max_streams=1) as at:
            first = await at.snapshot()
            async with at.stream(first["epoch"], 0):
                status, document = await at.get(f"api/v1/stream?epoch={first['epoch']}&since=0")
                assert (status, document["error"]["code"]) == (503, "too-many-streams")

    run(story())


@pytest.mark.parametrize("since", ["", "x", "-1", "9" * 40, "1e3"])
def test_a_sequence_must_be_a_number(since: str) -> None:
    async def story() -> None:
        async with dashboard() as at:
            status, document = await at.get(f"api/v1/stream?epoch=x&since={since}")
            assert (status, document["error"]["code"]) == (400, "bad-request")

    run(story())


# -- the page and its guards -------------------------------------------------------------------------


def test_page_files_have_etags_and_types() -> None:
    async def story() -> None:
        async with dashboard() as at:
            async with at.session.get(at.url) as response:
                assert response.content_type == "text/html"
                etag = response.headers["ETag"]
            async with at.session.get(at.url, headers={"If-None-Match": etag}) as response:
                assert response.status == 304
                assert not await response.read()
            async with at.session.get(f"{at.url}page/app.js") as response:
                assert response.content_type == "text/javascript"
                assert await response.read() == b"export {}"

    run(story())


@pytest.mark.parametrize("path", ["", "page/none", "api/v1/snapshot", "api/", "elsewhere"])
def test_every_response_has_the_security_headers(path: str) -> None:
    async def story() -> None:
        async with dashboard() as at, at.session.get(f"{at.url}{path}") as response:
            assert response.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert "Access-Control-Allow-Origin" not in response.headers
            assert "Server" not in response.headers

    run(story())


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8090", 200),
        ("localhost:1", 200),
        ("LOCALHOST.:1", 200),
        ("[::1]:8090", 200),
        ("10.1.2.3", 200),
        ("dashboard.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example@localhost", 421),
        ("localhost/evil.example", 421),
        ("", 421),
        ("a b", 421),
        ("[", 421),
    ],
)
def test_a_server_answers_by_its_own_names_only(host: str, status: int) -> None:
    async def story() -> None:
        async with dashboard(guard=Guard(["Dashboard.Example"])) as at:
            address, port = _address(at)
            request = f"GET /api/v1/snapshot HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            raw = await _raw(address, port, request)
            assert raw.startswith(f"HTTP/1.1 {status} ".encode()), raw[:200]

    run(story())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "same"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "same", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
    ],
)
def test_requests_of_other_sites_are_refused(headers: dict[str, str], status: int) -> None:
    async def story() -> None:
        async with dashboard() as at:
            sent = {key: at.url.rstrip("/") if value == "same" else value for key, value in headers.items()}
            async with at.session.get(f"{at.url}api/v1/snapshot", headers=sent) as response:
                assert response.status == status

    run(story())


def test_a_huge_body_is_refused() -> None:
    async def story() -> None:
        body = io.BytesIO(b"x" * (1 << 21))
        async with dashboard() as at, at.session.post(f"{at.url}api/v1/what-if", data=body) as response:
            assert response.status == 413
            assert (await response.json())["error"]["code"] == "too-large"

    run(story())


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
def test_nothing_can_be_changed(method: str) -> None:
    async def story() -> None:
        async with dashboard() as at, at.session.request(method, f"{at.url}api/v1/snapshot") as response:
            assert response.status == 405
            assert check_document(await response.json()) == "ringwise.io/error/v1"

    run(story())


def test_a_defect_is_told_without_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests of this process may have sent the log elsewhere.
    monkeypatch.setattr(Logger, "_stream", None)
    monkeypatch.setattr(Logger, "_written", frozenset({ERROR}))

    class Broken(SchedulerAnswers):
        async def why(self, namespace: str, name: str) -> dict[str, Any]:
            raise RuntimeError("secret")

    async def story() -> None:
        core = TestCore()
        async with dashboard(core) as at:
            at.server._answers = Broken(core)
            status, document = await at.get("api/v1/jobs/a/b/why")
            assert (status, document["error"]["code"]) == (500, "internal-error")
            assert "secret" not in str(document)

    run(story())
    assert "secret" in capsys.readouterr().err


def test_half_a_request_does_not_keep_its_connection() -> None:
    async def story() -> None:
        async with dashboard(connections=OpenConnections(header_timeout=0.05)) as at:
            host, port = _address(at)
            assert await _raw(host, port, "GET / HTTP/1.1\r\nHost:") == b""

    run(story())


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *((host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost")),
        *((host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "example.com", "")),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback


def test_names_of_objects_are_text() -> None:
    async def story() -> None:
        core = TestCore()
        name = "<script>\u202e&amp;'\"\n\r\0"
        core.tell(
            [ev.PodSeen(event.pod) if isinstance(event, ev.PodSeen) else event for event in gang(name, 1, 1)]
        )
        async with dashboard(core) as at:
            snapshot = await at.snapshot()
            assert [row["name"] for row in snapshot["jobs"]] == [name]
            async with at.session.get(f"{at.url}api/v1/snapshot") as response:
                assert response.content_type == "application/json"
            core.tell(gang(name + "2", 1, 1))
            async with at.stream(snapshot["epoch"], snapshot["sequence"]) as events:
                _, change = await anext(events)
                assert {row["name"] for row in change["jobs"]} == {name + "2"}

    run(story())


def _unpacked(packed: bytes) -> bytes:
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed)


def _records(core: TestCore) -> bool:
    return core.scheduler._state.changes.recording


def _address(at: Dashboard) -> tuple[str, int]:
    url = urlsplit(at.url)
    assert url.hostname
    assert url.port
    return url.hostname, url.port


async def _raw(host: str, port: int, request: str) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request.encode())
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
