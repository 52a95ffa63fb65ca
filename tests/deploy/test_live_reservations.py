"""`kubectl ringwise reserve` and `unreserve`: NodeReservations, with the rights of the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringwise.apps.reservations import check_new
from ringwise.durations import time_text
from ringwise.scheduler.core.node_reservations import MAX_NODES, MAX_RESERVATIONS
from ringwise.scheduler.explain.reserving import NotReservableError
from ringwise.state.model import NodeReservation
from tests.builders.values import SECOND
from tests.deploy.test_live_drain import on_cluster, two_nodes
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import PODS, pod

RESERVATIONS = "/apis/ringwise.io/v1alpha1/nodereservations"
NOW = 1_800_000_000 * SECOND
RESERVE = "reserve node-1 --for queue=default --to 2h --name night --yes"


def stored(api: FakeApiServer) -> set[str]:
    return {one["metadata"]["name"] for one in api.all(RESERVATIONS)}


def test_a_reservation_is_written_listed_and_deleted(tmp_path: Path) -> None:
    (made, listed, gone, again), api = on_cluster(
        tmp_path,
        two_nodes,
        "reserve node-1 --for namespace=team --to 2h --name night --reason course --yes -o json",
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
    assert one | {"created": ""} == answer["reservation"] | {"state": "active", "created": ""}
    assert (one["reason"], one["namespace"], one["nodes"]) == ("course", "team", ["node-1"])
    assert gone.exit_code == 0, gone.output
    assert (again.exit_code, 'reservation "night" not found' in again.output) == (2, True)
    assert stored(api) == set()


def test_nothing_is_written_without_a_yes(tmp_path: Path) -> None:
    (asked,), api = on_cluster(
        tmp_path, two_nodes, "reserve node-1 --for queue=default --to 2h --name night", given="n\n"
    )
    assert asked.exit_code == 1
    assert "reservation night: 1 node for queue default" in asked.stderr
    assert {method for method, _ in api.requests} == {"GET"}


def test_who_may_not_write_is_told_so(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        two_nodes(api)
        api.fault("POST", status=403, times=9)

    (refused,), api = on_cluster(tmp_path, prepare, RESERVE)
    assert refused.exit_code == 1
    assert "the API server rejected the request" in refused.stderr
    assert stored(api) == set()


def test_one_that_overlaps_is_refused(tmp_path: Path) -> None:
    (made, other, same), api = on_cluster(
        tmp_path,
        two_nodes,
        RESERVE,
        "reserve node-1 --for queue=default --to 1h --name day --yes",
        "reserve node-2 --for queue=default --to 1h --name night --yes",
    )
    assert made.exit_code == 0, made.output
    assert (other.exit_code, same.exit_code, stored(api)) == (2, 2, {"night"})
    assert "node-1 is reserved for queue default" in other.stderr
    assert "reservation night already exists" in same.stderr


def test_a_server_without_the_kind_is_one_clear_line(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        two_nodes(api)
        api.unknown.add("nodereservations")

    (made, doctor), _ = on_cluster(tmp_path, prepare, RESERVE, "doctor -o json")
    assert (made.exit_code, made.stdout) == (2, "")
    assert "the API server does not serve NodeReservations; install the Helm chart" in made.stderr
    found = json.loads(doctor.stdout)["findings"]
    assert [one["severity"] for one in found if one["code"] == "kind-not-served"] == ["error"]


def test_before_the_chart_is_installed_a_missing_kind_is_a_note(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        two_nodes(api)
        api.unknown.add("nodereservations")
        volcano = pod("scheduler-0", 0)
        volcano["metadata"] |= {"namespace": "volcano-system", "labels": {"app": "volcano-scheduler"}}
        api.put(PODS, volcano)

    (doctor,), _ = on_cluster(tmp_path, prepare, "doctor -o json")
    found = json.loads(doctor.stdout)["findings"]
    assert [one["severity"] for one in found if one["code"] == "kind-not-served"] == ["note"]


def test_one_that_cannot_be_read_costs_no_other(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        two_nodes(api)
        spec: dict[str, Any] = {
            "nodeNames": ["node-1"],
            "holder": {"queue": "default"},
            "startTime": "2020-01-31T08:00:00Z",
            "endTime": "2099-01-31T08:00:00Z",
        }
        api.put(RESERVATIONS, {"metadata": {"name": "old"}, "spec": spec})
        spec = spec | {"startTime": "2099-01-30T08:00:00Z"}
        api.put(RESERVATIONS, {"metadata": {"name": "newer"}, "spec": spec | {"exclusive": True}})
        api.put(RESERVATIONS, {"metadata": {"name": "far"}, "spec": spec | {"nodeNames": ["node-9"]}})

    (listed, doctor), _ = on_cluster(tmp_path, prepare, "get reservations -o json", "doctor -o json")
    answer = json.loads(listed.stdout)
    assert answer["reservations"] == []
    assert answer["problems"] == ["far: node node-9 not found"]
    ignored = [line for line in listed.stderr.splitlines() if line.startswith("ignored: ")]
    assert any("spec.exclusive" in line for line in ignored)
    assert any("at most 366 days" in line for line in ignored)
    codes = {one["object"]: one["code"] for one in json.loads(doctor.stdout)["findings"]}
    assert codes["NodeReservation far"] == "reservation-not-accepted"


def test_the_number_of_reservations_and_of_their_nodes_is_bounded() -> None:
    few = [
        NodeReservation(f"r{number}", ("n",), NOW + number * SECOND, NOW + (number + 1) * SECOND, queue="q")
        for number in range(MAX_RESERVATIONS)
    ]
    late = NodeReservation("late", ("m",), NOW, NOW + SECOND, queue="q")
    with pytest.raises(NotReservableError, match="1000 reservations already"):
        check_new(late, few)
    large = [
        NodeReservation(f"r{part}", tuple(f"n{part}-{number}" for number in range(5000)), NOW, NOW + SECOND)
        for part in range(MAX_NODES // 5000)
    ]
    with pytest.raises(NotReservableError, match=f"at most {MAX_NODES} nodes"):
        check_new(late, large)


def test_reservations_of_one_node_may_follow_each_other_and_not_overlap() -> None:
    first = NodeReservation("a", ("n1", "n2", "n3"), NOW, NOW + 60 * SECOND, queue="q")
    check_new(NodeReservation("b", ("n1",), NOW + 60 * SECOND, NOW + 90 * SECOND, queue="x"), [first])
    late = NodeReservation("b", ("n3", "n1", "m"), NOW + 59 * SECOND, NOW + 90 * SECOND, queue="x")
    with pytest.raises(NotReservableError) as problem:
        check_new(late, [first])
    times = f"from {time_text(first.start)} to {time_text(first.end)}"
    assert str(problem.value) == f"n1 and 1 more node are reserved for queue q {times} (a)"
