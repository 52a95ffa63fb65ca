"""What all kinds of ringwise.io have in common, on a real API server."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ringwise_bench.control_plane import ApiAnswer
from tests.cluster.cluster import Cluster, shipped_objects
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, node
from tests.cluster.test_move_plans import EXAMPLE

pytestmark = pytest.mark.cluster

GROUP = "/apis/ringwise.io/v1alpha1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Kind(NamedTuple):
    name: str
    spec: Callable[[str], Object]
    #: Other values of fields.
    change: Object
    #: Of the condition Accepted.
    reason: str = "Accepted"


#: By resource. Nodes have the names of the objects.
KINDS = {
    "isolations": Kind("Isolation", lambda name: {"node": name}, {"reason": "fan"}),
    "nodereservations": Kind(
        "NodeReservation",
        lambda name: {
            "nodeNames": [name],
            "holder": {"namespace": "nobody"},
            "startTime": "2098-12-31T00:00:00Z",
            "endTime": "2099-01-01T00:00:00Z",
        },
        {"reason": "course"},
    ),
    "usagelimits": Kind(
        "UsageLimit",
        lambda name: {"subject": {"queue": name}, "hard": {"runningJobs": 9}},
        {"hard": {"runningJobs": 8}},
    ),
    "moveplans": Kind(
        "MovePlan", lambda name: EXAMPLE["spec"], {"ttlSecondsAfterFinished": 60}, "TargetNotFound"
    ),
}
each_kind = pytest.mark.parametrize("plural", KINDS)


def made(plural: str, name: str, **spec: Any) -> Object:
    kind = KINDS[plural]
    head = {"apiVersion": "ringwise.io/v1alpha1", "kind": kind.name, "metadata": {"name": name}}
    return {**head, "spec": {**kind.spec(name), **spec}}


def apply(cluster: Cluster, one: Object) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(one))


def message_of(cluster: Cluster, plural: str, name: str) -> str | None:
    """The message of the condition Accepted of the newest generation, once it has the expected reason."""
    found = cluster.api.get(f"{GROUP}/{plural}/{name}")
    for one in found.get("status", {}).get("conditions", ()):
        if (one["type"], one["reason"]) == ("Accepted", KINDS[plural].reason):
            message: str = one["message"]
            return message if one["observedGeneration"] == found["metadata"]["generation"] else None
    return None


def wait_until_known(cluster: Cluster, plural: str, *objects: str, message: str = "") -> None:
    def known() -> bool:
        found = [message_of(cluster, plural, name) for name in objects]
        return all(one is not None and message in one for one in found)

    cluster.wait(known, f"{', '.join(objects)} have their conditions")


def names(cluster: Cluster, plural: str) -> list[str]:
    return [one["metadata"]["name"] for one in cluster.api.items(f"{GROUP}/{plural}")]


def submitted(cluster: Cluster, file: Path, one: Object, command: str = "submit") -> str:
    file.write_text(json.dumps(one))
    options = ("-f",) if command == "delete" else ()
    done = kubectl_ringwise(cluster.admin_config, command, *options, str(file))
    assert done.returncode == 0, done.stderr
    return done.stdout


@each_kind
def test_objects_are_created_changed_and_deleted_by_kubectl_and_by_commands(
    plural: str, cluster: Cluster, tmp_path: Path
) -> None:
    kind, both, file = KINDS[plural], ("by-kubectl", "by-command"), tmp_path / "object.json"
    cluster.apply(map(node, both))
    leader = cluster.run("scheduler")
    apply(cluster, made(plural, "by-kubectl"))
    assert submitted(cluster, file, made(plural, "by-command")) == f"{kind.name} by-command created\n"
    wait_until_known(cluster, plural, *both)
    # Changed while no scheduler runs.
    cluster.crash(leader)
    apply(cluster, made(plural, "by-kubectl", **kind.change))
    said = submitted(cluster, file, made(plural, "by-command", **kind.change))
    assert said == f"{kind.name} by-command changed\n"
    cluster.stop_components()
    cluster.run("scheduler")
    wait_until_known(cluster, plural, *both)
    listed = cluster.kubectl("get", "ringwise")
    assert all(name in listed for name in both)
    cluster.kubectl("delete", plural, "by-kubectl")
    submitted(cluster, file, made(plural, "by-command"), "delete")
    assert names(cluster, plural) == []


@each_kind
def test_two_operators_change_one_object_at_once(plural: str, cluster: Cluster, tmp_path: Path) -> None:
    change = KINDS[plural].change
    with ThreadPoolExecutor() as pool:
        said = list(
            pool.map(lambda at: submitted(cluster, tmp_path / f"{at}.json", made(plural, "one")), range(2))
        )
    assert "created" in said[0] + said[1]
    (first,) = cluster.api.items(f"{GROUP}/{plural}")
    # Of two changes of the same version the second is refused.
    for known, body in ((False, {**first["spec"], **change}), (True, first["spec"])):
        text = json.dumps({**first, "spec": body})
        answer = cluster.kubectl("replace", "-f", "-", stdin=text, check=False)
        assert ("the object has been modified" in answer) == known
    assert change.items() <= cluster.api.get(f"{GROUP}/{plural}/one")["spec"].items()
    file = tmp_path / "0.json"
    with ThreadPoolExecutor() as pool:
        gone = pool.map(lambda _: kubectl_ringwise(cluster.admin_config, "delete", "-f", str(file)), range(2))
    assert 0 in [one.returncode for one in gone]
    assert names(cluster, plural) == []


@each_kind
def test_a_field_of_a_newer_version_affects_no_other_object(
    plural: str, cluster: Cluster, operator: Path
) -> None:
    """An Isolation is in force without the field; other objects are ignored, and what was in force stays."""
    kind = KINDS[plural].name
    (shipped,) = (one for one in shipped_objects() if one["metadata"]["name"] == f"{plural}.ringwise.io")
    newer = copy.deepcopy(shipped)
    schema = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["properties"]["weekdays"] = {"type": "string"}

    def install(definition: Object) -> None:
        text = json.dumps(definition)
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    cluster.apply(map(node, ("before", "new", "other", "last")))
    apply(cluster, made(plural, "before"))
    cluster.run("scheduler")
    wait_until_known(cluster, plural, "before")
    install(newer)
    try:
        explain = ("explain", f"{kind}.spec".lower())
        cluster.wait(lambda: "weekdays" in cluster.kubectl(*explain, check=False), "the schema is served")
        for name in ("before", "new"):
            apply(cluster, made(plural, name, weekdays="Mon"))
        apply(cluster, made(plural, "other"))
        wait_until_known(cluster, plural, "other")
        # The next leader finds them stored.
        cluster.stop_components()
        cluster.run("scheduler")
        apply(cluster, made(plural, "last"))
        wait_until_known(cluster, plural, "last")
        doctor = kubectl_ringwise(operator, "doctor", "-o", "json").stdout
        assert "weekdays" in doctor
        if kind == "Isolation":
            wait_until_known(cluster, plural, "before", "new", message="fields ignored: weekdays")
        else:
            assert all(f"{kind} {name}" in doctor for name in ("before", "new"))
            assert not any(message_of(cluster, plural, name) for name in ("before", "new"))
    finally:
        cluster.kubectl("delete", plural, "--all", check=False)
        install(shipped)


ROLES = ("tenant", "owner", "reader", "chief", *KINDS)


def test_only_their_roles_grant_them(cluster: Cluster) -> None:
    """The right to reserve nodes is granted separately, and no role of a namespace has any of them."""
    accounts = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}} for name in ROLES]
    cluster.apply(accounts)
    for name, role in {"tenant": "edit", "owner": "admin"}.items():
        subject = f"--serviceaccount={cluster.namespace}:{name}"
        cluster.kubectl("create", "rolebinding", f"kinds-{name}", f"--clusterrole={role}", subject)
    editors = {plural: f"ringwise-{plural.removesuffix('s')}-editor" for plural in KINDS}
    for name, role in {"reader": "ringwise-view", "chief": "ringwise-operator", **editors}.items():
        subject = f"--serviceaccount={cluster.namespace}:{name}"
        cluster.kubectl("create", "clusterrolebinding", f"kinds-{name}", f"--clusterrole={role}", subject)

    def may(user: str, plural: str, *verbs: str) -> list[str]:
        def allowed(verb: str) -> bool:
            wanted = {"group": "ringwise.io", "resource": plural, "verb": verb}
            spec = {"user": f"system:serviceaccount:{user}", "resourceAttributes": wanted}
            return bool(cluster.api.create(REVIEWS, {"spec": spec})["status"]["allowed"])

        return [verb for verb in verbs if allowed(verb)]

    def are_granted(plural: str, expected: dict[str, list[str]]) -> bool:
        """The API server uses a new binding a moment later."""
        return expected == {name: may(f"{cluster.namespace}:{name}", plural, *everything) for name in ROLES}

    reading = ["get", "list", "watch"]
    everything = [*reading, "create", "update", "patch", "delete", "approve"]
    cluster.wait(lambda: may(f"{cluster.namespace}:chief", "moveplans", "approve"), "the role is aggregated")
    for plural in KINDS:
        of_chief = [verb for verb in everything if verb != "approve" or plural == "moveplans"]
        expected: dict[str, list[str]] = {name: [] for name in ROLES} | {"reader": reading, "chief": of_chief}
        expected[plural] = everything[:-1]
        cluster.wait(partial(are_granted, plural, expected), f"the rights on {plural} are {expected}")
        # F4.
        plugin = may("volcano-system:ringwise-device-plugin", plural, *everything)
        assert plugin == (["list", "watch"] if plural == "isolations" else [])
        # And what the tenant tries is refused.
        apply(cluster, made(plural, "present"))
        tenant = cluster.api_of(cluster.plane.account_token(cluster.namespace, "tenant"))
        path = f"{GROUP}/{plural}"
        for attempt in (
            partial(tenant.items, path),
            partial(tenant.create, path, made(plural, "theirs")),
            partial(tenant.patch, f"{path}/present", {"spec": KINDS[plural].change}),
            partial(tenant.delete, f"{path}/present"),
        ):
            with pytest.raises(ApiAnswer, match="forbidden"):
                attempt()
        assert names(cluster, plural) == ["present"]
