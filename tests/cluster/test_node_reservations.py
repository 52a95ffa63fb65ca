"""NodeReservations on a real API server: validation, conditions, rights, and a kind that is not served."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from tests.checkout import ROOT
from tests.cluster.cluster import SOON_SERVED, SOON_STATED, Cluster, node_of, shipped_objects
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, node, pod, vcjob

pytestmark = pytest.mark.cluster

PATH = "/apis/ringwise.io/v1alpha1/nodereservations"
PAGE = ROOT / "docs" / "reference" / "nodereservation.md"


def reservation(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "ringwise.io/v1alpha1",
        "kind": "NodeReservation",
        "metadata": {"name": name},
        "spec": {"holder": {"namespace": "nobody"}, "endTime": "2099-01-01T00:00:00Z", **spec},
    }


SOON = {"startTime": "2098-12-31T00:00:00Z"}
REFUSED = {
    "exactly one of nodeNames, nodeSelector, leafSwitch, superPod": reservation("a", **SOON),
    "exactly one of queue and namespace": reservation("a", superPod=1, holder={}, **SOON),
    "endTime must be later than startTime": reservation("a", superPod=1, startTime="2099-01-01T00:00:00Z"),
    "at most 366 days later": reservation("a", superPod=1, startTime="2097-01-01T00:00:00Z"),
    "Duplicate value": reservation("a", nodeNames=["n", "n"], **SOON),
    'unknown field "spec.exclusive"': reservation("a", superPod=1, exclusive=True, **SOON),
}


def conditions(cluster: Cluster, name: str) -> dict[str, str]:
    """Reason by type, of the conditions of the newest generation."""
    found = cluster.api.get(f"{PATH}/{name}")
    return {
        one["type"]: one["reason"]
        for one in found.get("status", {}).get("conditions", ())
        if one["observedGeneration"] == found["metadata"]["generation"]
    }


def test_reservations_are_validated_and_have_conditions(cluster: Cluster, operator: Path) -> None:
    cluster.apply([node("kept-1"), node("kept-2")])
    for message, made in REFUSED.items():
        said = cluster.kubectl("create", "-f", "-", stdin=json.dumps(made), check=False)
        assert message in said
    examples = yaml.safe_load_all("\n---\n".join(re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)))
    for one in examples:
        cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(one))
    leader = cluster.run("scheduler", "controller", waits=SOON_STATED)
    soon = {"endTime": "2098-12-31T01:00:00Z", **SOON}
    far = reservation("far", nodeNames=["kept-9"], **soon)
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(far))
    made = reservation("night", nodeSelector={"kubernetes.io/hostname": "kept-1"}, **soon)
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    accepted = {"Accepted": "Accepted", "Active": "NotStarted"}
    cluster.wait(lambda: conditions(cluster, "night") == accepted, "it is accepted")
    refused = {"Accepted": "NodeNotFound", "Active": "NotAccepted"}
    cluster.wait(lambda: conditions(cluster, "far") == refused, "it is not accepted")
    # Another that overlaps, created while no scheduler runs.
    cluster.crash(leader)
    later = reservation("later", nodeNames=["kept-2", "kept-1"], **soon)
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(later))
    cluster.stop_components()
    cluster.run("scheduler", "controller", waits=SOON_STATED)
    cluster.wait(lambda: conditions(cluster, "later").get("Accepted") == "Overlaps", "it overlaps")
    assert conditions(cluster, "night") == accepted
    listed = cluster.kubectl("get", "ringwise")
    assert re.search(r"night\s+nobody\s+\S+\s+\S+\s+True\s+False", listed), listed
    findings = json.loads(kubectl_ringwise(operator, "doctor", "-o", "json").stdout)["findings"]
    assert {one["object"] for one in findings if one["code"] == "reservation-not-accepted"} == {
        "NodeReservation far",
        "NodeReservation later",
    }
    # A change by kubectl, and a deletion by the command.
    cluster.kubectl("patch", "nres/night", "--type=merge", "-p", json.dumps({"spec": {"startTime": None}}))
    done = kubectl_ringwise(operator, "unreserve", "night")
    assert done.returncode == 0, done.stderr
    cluster.wait(lambda: conditions(cluster, "later").get("Accepted") == "Accepted", "it is accepted now")
    before = cluster.api.get(f"{PATH}/later")["metadata"]["resourceVersion"]
    cluster.apply([node("kept-3")])
    cluster.apply([pod("some-0", 1)])
    cluster.wait_running("some", 1)
    assert cluster.api.get(f"{PATH}/later")["metadata"]["resourceVersion"] == before


def test_reservations_stay_in_force_while_the_kind_is_not_served(cluster: Cluster, operator: Path) -> None:
    cluster.apply([node("kept-1")])
    cluster.run("scheduler", "controller", waits=SOON_SERVED)
    cluster.kubectl(
        "apply",
        "-f",
        "-",
        stdin=json.dumps(reservation("night", nodeNames=["kept-1"], endTime=_in_a_month())),
    )
    active = {"Accepted": "Accepted", "Active": "Started"}
    cluster.wait(lambda: conditions(cluster, "night") == active, "it is in force")
    (crd,) = (one for one in shipped_objects() if one["metadata"]["name"] == "nodereservations.ringwise.io")
    cluster.kubectl("delete", "crd", "nodereservations.ringwise.io")
    try:

        def told() -> bool:
            findings = json.loads(kubectl_ringwise(operator, "doctor", "-o", "json").stdout)["findings"]
            return any(one["code"] == "kind-not-served" and one["severity"] == "error" for one in findings)

        cluster.wait(told, "doctor reports an error")
        cluster.apply([vcjob("waits", 1, 8)])
        reason = f"{cluster.namespace}/waits"

        def said() -> bool:
            return "node-reserved" in kubectl_ringwise(operator, "why", reason).stdout

        cluster.wait(said, "why names the reservation")
        # The next leader has it from the record.
        cluster.stop_components()
        cluster.run("scheduler", "controller", waits=SOON_SERVED)
        cluster.wait(said, "why names the reservation")
        assert not any(map(node_of, cluster.pods("waits")))
    finally:
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(crd))
        cluster.wait_established("nodereservations.ringwise.io")
    # A list succeeds: the reservation was deleted with its kind.
    (pod_of_waits,) = cluster.wait_running("waits", 1)
    assert node_of(pod_of_waits) == "kept-1"


def test_two_operators_reserve_and_change_one_reservation_at_once(cluster: Cluster, operator: Path) -> None:
    cluster.apply([node("n-1"), node("n-2")])
    cluster.run("scheduler", "controller")

    def both(*commands: tuple[str, ...]) -> list[CompletedProcess[str]]:
        with ThreadPoolExecutor() as pool:
            return list(pool.map(lambda command: kubectl_ringwise(operator, *command), commands))

    made = both(
        *(
            ("reserve", name, "--for", "namespace=q", "--to", "4h", "--name", "night", "--yes")
            for name in ("n-1", "n-2")
        )
    )
    assert [one.returncode for one in made].count(0) == 1, [one.stderr for one in made]
    assert "reservation night already exists" in made[0].stderr + made[1].stderr
    (first,) = cluster.api.items(PATH)
    # Of two changes that were made from the same version the second is refused.
    for reason, refused in (("course", False), ("test", True)):
        body = {**first, "spec": {**first["spec"], "reason": reason}}
        said = cluster.kubectl("replace", "-f", "-", stdin=json.dumps(body), check=False)
        assert ("the object has been modified" in said) == refused
    assert cluster.api.get(f"{PATH}/night")["spec"]["reason"] == "course"
    gone = both(*[("unreserve", "night")] * 2)
    assert 0 in {one.returncode for one in gone}
    assert cluster.api.items(PATH) == []


def _in_a_month() -> str:
    return (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
