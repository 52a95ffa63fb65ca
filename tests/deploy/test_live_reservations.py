"""`kubectl ringwise reserve` and `unreserve`: the entries of the ConfigMap, with the rights of the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringwise.apps.reservations import check_new
from ringwise.durations import time_text
from ringwise.manifests.config_maps.node_reservations import (
    MAX_NODES,
    MAX_RESERVATIONS,
    node_reservations_from_data,
    reservation_entry,
)
from ringwise.manifests.text.errors import Findings
from ringwise.scheduler.explain.reserving import NotReservableError
from ringwise.state.model import NodeReservation
from tests.builders.values import SECOND
from tests.deploy.test_live_drain import on_cluster, two_nodes
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import CONFIG_MAPS

NAME = "kube-system/ringwise-reservations"
NOW = 1_800_000_000 * SECOND
ENTRY = {"nodes": ["node-9"], "queue": "q", "from": "2026-01-31T08:00:00Z", "to": "2026-01-31T09:00:00Z"}


def entries(api: FakeApiServer) -> dict[str, Any]:
    found = api.collections.get(CONFIG_MAPS, {}).get(NAME, {})
    return dict(found.get("data") or {})


def stored(api: FakeApiServer, **data: str) -> None:
    two_nodes(api)
    metadata = {"namespace": "kube-system", "name": "ringwise-reservations"}
    api.put(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def test_a_reservation_is_written_listed_and_cancelled(tmp_path: Path) -> None:
    (made, listed, gone, again), api = on_cluster(
        tmp_path,
        two_nodes,
        "reserve node-1 --for namespace=team --to 2h --name night --by ana --yes -o json",
        "get reservations -o json",
        "unreserve night",
        "unreserve night",
    )
    assert made.exit_code == 0, made.output
    answer = json.loads(made.stdout)
    assert answer["schema"] == "ringwise.io/reservation-change/v1"
    running = [(run["job"], run["pods"], run["ends"]) for run in answer["reservation"]["running"]]
    assert running == [("default/agent", 1, None), ("default/gang", 1, None)]
    (one,) = json.loads(listed.stdout)["reservations"]
    assert one == answer["reservation"] | {"state": "current"}
    assert (one["by"], one["namespace"], one["nodes"]) == ("ana", "team", ["node-1"])
    assert gone.exit_code == 0, gone.output
    assert (again.exit_code, "there is no reservation night" in again.output) == (2, True)
    assert entries(api) == {}


def test_nothing_is_written_without_a_yes(tmp_path: Path) -> None:
    (asked,), api = on_cluster(
        tmp_path, two_nodes, "reserve node-1 --for queue=default --to 2h --name night", given="n\n"
    )
    assert asked.exit_code == 1
    assert "reservation night: 1 node for queue default" in asked.stderr
    assert {method for method, _ in api.requests} == {"GET"}


def test_entries_that_are_over_go_with_the_next_one_and_unreadable_ones_stay(tmp_path: Path) -> None:
    over = json.dumps(ENTRY)

    def prepare(api: FakeApiServer) -> None:
        stored(api, over=over, bad="{")

    (made, told, gone), api = on_cluster(
        tmp_path,
        prepare,
        "reserve node-1 --for queue=default --to 2h --name night --yes",
        "get reservations -o json",
        "unreserve bad",
    )
    assert made.exit_code == 0, made.output
    assert json.loads(told.stdout)["problems"][0].startswith("bad: ")
    assert gone.exit_code == 0, gone.output
    assert set(entries(api)) == {"night"}


@pytest.mark.parametrize("there", [False, True])
def test_who_may_not_write_is_told_so(tmp_path: Path, there: bool) -> None:
    def prepare(api: FakeApiServer) -> None:
        (stored if there else two_nodes)(api)
        api.fault("PATCH" if there else "POST", status=403, times=9)

    (refused,), api = on_cluster(
        tmp_path, prepare, "reserve node-1 --for queue=default --to 2h --name night --yes"
    )
    assert refused.exit_code == 1
    assert "the API server refused" in refused.stderr
    assert entries(api) == {}


def test_two_who_reserve_at_once_both_have_theirs_or_one_is_refused(tmp_path: Path) -> None:
    """The entry is checked against what is stored when it is written."""

    def prepare(api: FakeApiServer) -> None:
        stored(api)
        api.fault("PATCH", status=409, times=1)

    (made, other), api = on_cluster(
        tmp_path,
        prepare,
        "reserve node-1 --for queue=default --to 2h --name night --yes",
        "reserve node-1 --for queue=default --to 1h --name day --yes",
    )
    assert made.exit_code == 0, made.output
    assert (other.exit_code, set(entries(api))) == (2, {"night"})
    assert "node-1 is reserved for queue default" in other.stderr


BROKEN = {
    "no JSON": "{",
    "no object": "[]",
    "deep": "[" * 100_000,
    "no nodes": json.dumps(ENTRY | {"nodes": []}),
    "a node twice": json.dumps(ENTRY | {"nodes": ["a", "a"]}),
    "nodes of a wrong kind": json.dumps(ENTRY | {"nodes": "all"}),
    "for nobody": json.dumps(ENTRY | {"queue": ""}),
    "for two": json.dumps(ENTRY | {"namespace": "n"}),
    "no time": json.dumps(ENTRY | {"to": "tomorrow"}),
    "a time that is none": json.dumps(ENTRY | {"from": "2026-13-31T08:00:00Z"}),
    "backwards": json.dumps(ENTRY | {"from": "2026-02-01T08:00:00Z"}),
    "of another version": json.dumps(ENTRY | {"version": 2, "nodes": {"names": []}}),
    "for ever": json.dumps(ENTRY | {"to": "2999-01-01T00:00:00Z"}),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_entry_is_told_and_the_others_count(case: str) -> None:
    found = Findings("x")
    read = node_reservations_from_data({"bad": BROKEN[case], "good": json.dumps(ENTRY)}, found)
    assert [one.name for one in read.entries] == ["good"]
    assert len(read.problems) == len(found.errors) == 1
    assert read.problems[0].startswith("bad: ")
    assert len(read.problems[0]) < 300


def test_an_entry_of_another_version_is_not_overwritten(tmp_path: Path) -> None:
    later = BROKEN["of another version"]
    (listed, made, gone), api = on_cluster(
        tmp_path,
        lambda api: stored(api, night=later),
        "get reservations -o json",
        "reserve node-1 --for queue=default --to 1h --name night --yes",
        "unreserve night",
    )
    (problem,) = json.loads(listed.stdout)["problems"]
    assert problem == "night: unsupported version 2: this Ringwise reads version 1"
    assert made.exit_code == 2
    assert "there is a reservation night already, which cannot be read" in made.stderr
    assert (gone.exit_code, entries(api)) == (0, {})


@pytest.mark.parametrize("name", ["a b", "", "x" * 64, "-a", "a/b", "ä"])
def test_a_name_that_no_command_would_give_does_not_count(name: str) -> None:
    assert node_reservations_from_data({name: json.dumps(ENTRY)}, Findings("x")).entries == ()


def test_what_is_written_is_what_is_read() -> None:
    one = NodeReservation("r-1", ("n1", "n2"), NOW, NOW + 60 * SECOND, namespace="team", by="ana", at="x")
    assert node_reservations_from_data(dict([reservation_entry(one)]), Findings("x")).entries == (one,)


def test_the_number_of_reservations_and_of_their_nodes_is_bounded() -> None:
    few = [
        NodeReservation(f"r{number}", ("n",), NOW + number * SECOND, NOW + (number + 1) * SECOND, queue="q")
        for number in range(MAX_RESERVATIONS + 1)
    ]
    read = node_reservations_from_data(dict(map(reservation_entry, few)), Findings("x"))
    assert (len(read.entries), len(read.problems)) == (MAX_RESERVATIONS, 1)
    with pytest.raises(NotReservableError, match="1000 reservations already"):
        check_new(few[-1], few[:-1])
    nodes = tuple(f"n{number}" for number in range(MAX_NODES))
    large = NodeReservation("large", nodes, NOW, NOW + SECOND, queue="q")
    read = node_reservations_from_data(dict(map(reservation_entry, (large, few[0]))), Findings("x"))
    assert [one.name for one in read.entries] == ["large"]
    other = NodeReservation("other", ("m",), NOW, NOW + SECOND, queue="q")
    with pytest.raises(NotReservableError, match=f"at most {MAX_NODES} nodes"):
        check_new(other, [large])


def test_reservations_of_one_node_may_follow_each_other_and_not_overlap() -> None:
    first = NodeReservation("a", ("n1", "n2", "n3"), NOW, NOW + 60 * SECOND, queue="q")
    check_new(NodeReservation("b", ("n1",), NOW + 60 * SECOND, NOW + 90 * SECOND, queue="x"), [first])
    late = NodeReservation("b", ("n3", "n1", "m"), NOW + 59 * SECOND, NOW + 90 * SECOND, queue="x")
    with pytest.raises(NotReservableError) as problem:
        check_new(late, [first])
    times = f"{time_text(NOW)} to {time_text(NOW + 60 * SECOND)}"
    assert str(problem.value) == f"n1 and 1 more node are reserved for queue q from {times} (a)"
