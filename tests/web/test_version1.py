"""Version 1 of the changed documents: it keeps to its old schema and says what it said."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from ringwise.apps.lab.folder import LabFolder
from ringwise.messages import events as ev
from ringwise.state.model import Isolation, Isolations
from ringwise.views.version1 import CHANGES, as_version_1, old_schema
from tests.lab.rig import Terminal, job, nodes, running
from tests.scheduler.clusters import NOW, gang, node
from tests.tools.schemas import check_document
from tests.web.rig import SECOND, TestCore, dashboard, run

OLD = "--schema-version 1"


def broken(terminal: Terminal, folder: Path) -> None:
    """A cluster with a node in every state that the lab can make."""
    terminal.submit(job("train", 1, 4))
    terminal.ok("advance 5s")
    terminal.ok("cordon node-1")
    terminal.ok("fault inject node node-2")
    terminal.ok("fault inject chip node-3 7")
    terminal.ok(f"isolate --lab {folder} node-3 Ascend910-5 --reason test --by me")
    terminal.ok(f"isolate --lab {folder} node-4 --reason test --by me")
    terminal.ok("advance 1s")


def test_commands_print_the_old_documents(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(5)):
        broken(terminal, tmp_path)
        commands = (
            "get nodes",
            "describe node node-3",
            "top --once",
            "capacity",
            f"chips list --lab {tmp_path}",
        )
        found = {command: terminal.json(f"{command} {OLD}") for command in commands}
        names = {check_document(document) for document in found.values()}
        assert names == {f"ringwise.io/{name}/v1" for name in ("nodes", "node", "top", "capacity", "chips")}

        by_name = {one["name"]: one for one in found["get nodes"]["nodes"]}
        flags = {name: (one["ready"], one["cordoned"]) for name, one in by_name.items()}
        assert flags == {
            "node-0": (True, False),
            "node-1": (True, True),
            "node-2": (False, False),
            "node-3": (True, False),
            "node-4": (True, False),
        }
        (chips,) = by_name["node-3"]["chips"]
        assert (chips["faulty"], chips["isolated"], chips["closed"]) == ([7], [5], None)
        assert chips["free"] == [0, 1, 2, 3, 4, 6]
        assert by_name["node-4"]["chips"][0]["isolated"] == list(range(8))
        # On a node that takes no pods chips were called free.
        assert by_name["node-1"]["chips"][0]["free"] == list(range(8))
        assert [len(one["chips"][0]["held"]) for one in by_name.values()] == [4, 0, 0, 0, 0]
        assert (found["top --once"]["status"]["held"], found["top --once"]["status"]["faulty"]) == (4, 1)
        (board,) = found["capacity"]["boards"]
        assert (board["chips"]["held"], board["chips"]["faulty"], board["chips"]["closed"]) == (4, 10, 16)
        states = {row["state"] for row in found[f"chips list --lab {tmp_path}"]["chips"]}
        assert states == {"free", "used", "unhealthy", "isolated"}
        # Documents without a version 2, and tables, are what they are.
        assert terminal.json(f"get jobs {OLD}") == terminal.json("get jobs")
        assert terminal.ok(f"get nodes {OLD}") == terminal.ok("get nodes")


def test_the_api_of_a_lab_answers_with_the_old_documents(tmp_path: Path) -> None:
    with running(tmp_path, nodes(1)):
        path = "/v1/ask/get?schema-version="
        status, answer = asked(tmp_path, f"{path}1")
        assert (status, check_document(answer)) == (200, "ringwise.io/nodes/v1")
        assert check_document(asked(tmp_path, f"{path}2")[1]) == "ringwise.io/nodes/v2"
        assert check_document(asked(tmp_path, "/v1/ask/capacity?schema-version=1")[1]).endswith("/v1")
        status, answer = asked(tmp_path, f"{path}3")
        assert (status // 100, "schema-version is one of 1, 2" in str(answer)) == (4, True)


def asked(folder: Path, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("lab")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(LabFolder(folder).socket))
    body = json.dumps({"kind": "nodes"})
    connection.request("POST", path, body)
    response = connection.getresponse()
    try:
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_the_dashboard_answers_with_the_old_documents() -> None:
    async def story() -> None:
        isolations = (Isolation("n2"), Isolation("n3", start=NOW + 9 * SECOND * 1000))
        core = TestCore(
            node("n1"), node("n2"), node("n3"), node("n4", unschedulable=True), node("n5", ready=False)
        )
        core.tell([ev.IsolationsSeen(Isolations(isolations))])
        async with dashboard(core) as at:
            old = "schema-version=1"
            _, snapshot = await at.get(f"api/v1/snapshot?{old}")
            assert check_document(snapshot) == "ringwise.io/dashboard/v1"
            assert {row["name"]: row["state"] for row in snapshot["nodes"]} == {
                "n1": "ready",
                "n2": "isolated",
                "n3": "ready",
                "n4": "unschedulable",
                "n5": "not-ready",
            }
            assert check_document(await at.snapshot()) == "ringwise.io/dashboard/v2"
            for version in ("1", "2"):
                _, series = await at.get(f"api/v1/series?schema-version={version}")
                assert check_document(series) == f"ringwise.io/series/v{version}"
            _, cordoned = await at.get(f"api/v1/nodes/n4?{old}")
            assert check_document(cordoned) == "ringwise.io/dashboard-node/v1"
            assert [one["code"] for one in cordoned["reasons"]] == ["node-cordoned"]
            _, ahead = await at.get(f"api/v1/nodes/n3?{old}")
            assert [one["code"] for one in ahead["reasons"]] == ["drain-ahead"]
            core.tell(gang("new", 1, 8))
            where = f"{snapshot['epoch']}&{old}"
            async with at.stream(where, snapshot["sequence"]) as events:
                name, change = await anext(events)
                assert (name, check_document(change)) == ("change", "ringwise.io/dashboard-change/v1")
                assert [row["state"] for row in change["nodes"]] == ["ready"]
            status, error = await at.get("api/v1/snapshot?schema-version=7")
            assert (status, error["error"]["code"]) == (400, "bad-request")

    run(story())


@pytest.mark.parametrize("schema", CHANGES)
def test_every_changed_document_has_both_schemas(schema: str) -> None:
    for one in (schema, old_schema(schema)):
        with pytest.raises(AssertionError, match="is a required property"):
            check_document({"schema": one})


def test_what_has_no_version_2_is_returned_as_it_is() -> None:
    for document in ({"schema": "ringwise.io/why/v1", "x": 1}, {"kind": "Node"}, [1], None, {"schema": 7}):
        assert as_version_1(document) is document
