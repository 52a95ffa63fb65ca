"""The webhook that writes who created a job."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
import yaml

from ringwise.apps.admission.cost import MAX_OBJECT_BYTES
from ringwise.apps.admission.users import MAX_USER_NAME
from ringwise.apps.admission.webhook import attributed
from ringwise.manifests.objects.workloads import OPERATOR_KINDS
from ringwise.wellknown import APPROVED_BY, USER
from tests.admission.reviews import pod, vcjob
from tests.deploy.shipped import chart_text, webhooks

Object = dict[str, Any]


def sent(
    kind: str, made: Object, user: str = "alice", before: Object | None = None, group: str | None = None
) -> bytes:
    request = {
        "uid": "the-review",
        "kind": {"group": group if group is not None else "apps", "kind": kind},
        "operation": "CREATE" if before is None else "UPDATE",
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": made,
        "oldObject": before,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def stored(body: bytes) -> Object:
    """The object as the API server stores it."""
    made: Object = copy.deepcopy(json.loads(body)["request"]["object"])
    answered = attributed(body)
    assert answered is not None
    response = answered["response"]
    assert response["allowed"] is True
    for one in json.loads(base64.b64decode(response.get("patch", ""))) if "patch" in response else ():
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in one["path"].split("/")[1:]]
        place: Any = made
        for part in path:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if one["op"] == "remove":
            del place[last]
        else:
            assert one["op"] == "add"
            place[last] = one["value"]
    return made


def user(part: Object) -> str | None:
    return ((part.get("metadata") or {}).get("annotations") or {}).get(USER)


def named(name: str) -> Object:
    return {"annotations": {USER: name}}


def deployment(scheduler: str = "volcano", meta: Object | None = None, inner: Object | None = None) -> Object:
    template = {"metadata": inner, "spec": {"schedulerName": scheduler}}
    return {"metadata": meta or {}, "spec": {"template": template}}


BATCH = "batch.volcano.sh"


def test_a_bare_pod_and_a_pod_group_are_of_who_creates_them() -> None:
    assert user(stored(sent("Pod", pod(8), group=""))) == "alice"
    copied = pod(8, annotations={USER: "bob", "note": "x"})
    made = stored(sent("Pod", copied, group=""))
    assert made["metadata"]["annotations"] == {USER: "alice", "note": "x"}
    group = {"metadata": named("bob"), "spec": {"minMember": 4}}
    assert user(stored(sent("PodGroup", group, group="scheduling.volcano.sh"))) == "alice"


def test_every_template_of_an_owner_gets_the_user() -> None:
    job = vcjob()
    job["spec"]["tasks"] += [
        {"name": "forged", "template": {"metadata": named("bob"), "spec": {}}},
        {"name": "no"},
    ]
    made = stored(sent("Job", job, group=BATCH))
    assert [user(made), *(user(task["template"]) for task in made["spec"]["tasks"][:2])] == ["alice"] * 3
    assert "template" not in made["spec"]["tasks"][2]
    for kind, group in (
        ("Deployment", "apps"),
        ("DaemonSet", "apps"),
        ("Job", "batch"),
        ("StatefulSet", "apps"),
    ):
        made = stored(sent(kind, deployment(inner=named("bob")), group=group))
        assert [user(made), user(made["spec"]["template"])] == ["alice", "alice"]
    inner = deployment()["spec"]
    cron = {"metadata": {}, "spec": {"jobTemplate": {"metadata": named("bob"), "spec": inner}}}
    made = stored(sent("CronJob", cron, group="batch"))
    of = made["spec"]["jobTemplate"]
    assert [user(made), user(of), user(of["spec"]["template"])] == ["alice"] * 3


@pytest.mark.parametrize(("kind", "form"), OPERATOR_KINDS.items())
def test_every_role_of_an_operators_job_gets_the_user(kind: tuple[str, str], form: Any) -> None:
    roles = {"Mas/ter": {"template": {"metadata": named("bob")}}, "Worker": {"template": {}}, "None": None}
    made = stored(sent(kind[1], {"metadata": {}, "spec": {form.field: roles}}, group=kind[0]))
    of = made["spec"][form.field]
    assert [user(made), user(of["Mas/ter"]["template"]), user(of["Worker"]["template"])] == ["alice"] * 3


@pytest.mark.parametrize(
    "name",
    [
        "system:serviceaccount:ml:train",
        "o'hara",
        "a\nb",
        "a/b,c;d",
        "аlice",
        "alice ",
        "n" * MAX_USER_NAME,
        "😀",
    ],
)
def test_names_are_written_as_they_are(name: str) -> None:
    """Whatever would make two of them alike would let one user be another."""
    assert user(stored(sent("Pod", pod(8), name, group=""))) == name


def test_a_name_that_is_too_long_is_not_cut_off() -> None:
    made = stored(sent("Deployment", deployment(meta=named("bob"), inner=named("bob")), "n" * 2000))
    assert user(made) is None
    assert user(made["spec"]["template"]) is None


def test_a_large_job_is_not_nobodys() -> None:
    job = vcjob()
    job["spec"]["padding"] = "x" * (MAX_OBJECT_BYTES + 1)
    assert user(stored(sent("Job", job, group=BATCH))) == "alice"


def test_an_update_keeps_the_user() -> None:
    before = deployment(meta=named("alice"), inner=named("alice"))
    for changed in (
        deployment(meta=named("mallory"), inner=named("alice")),
        deployment(meta=named("alice"), inner=named("mallory")),
        # kubectl replace, with the manifest of before.
        deployment(),
        deployment("other", {}, None),
    ):
        made = stored(sent("Deployment", changed, "mallory", before))
        assert [user(made), user(made["spec"]["template"])] == ["alice", "alice"]


def test_an_update_names_nobody_where_nobody_was_named() -> None:
    """The creator is not known: whoever changes something of it is not the one."""
    before = deployment()
    changed = deployment(inner=named("alice"))
    made = stored(sent("Deployment", changed, "mallory", before))
    assert [user(made), user(made["spec"]["template"])] == [None, None]
    made = stored(sent("Deployment", deployment(meta=named("alice")), "mallory", before))
    assert user(made) is None
    claimed = stored(sent("Deployment", deployment(meta=named("mallory")), "mallory", before))
    assert [user(claimed), user(claimed["spec"]["template"])] == ["mallory", "mallory"]


def test_what_another_scheduler_served_is_of_who_gives_it_to_us() -> None:
    """Else nobody would pay for what is created for another scheduler and changed then."""
    made = stored(sent("Deployment", deployment(), "mallory", deployment("default-scheduler")))
    assert [user(made), user(made["spec"]["template"])] == ["mallory", "mallory"]


@pytest.mark.parametrize(
    "made",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": [], "spec": {"tasks": {}}},
        {"metadata": {"annotations": None}, "spec": {"tasks": [None, {"template": None}, 3]}},
        {"metadata": {"annotations": {USER: 5}}, "spec": {"tasks": [{"template": {"metadata": None}}]}},
    ],
)
def test_odd_objects_are_answered(made: Object) -> None:
    assert user(stored(sent("Job", made, group=BATCH))) == "alice"


def test_other_requests_are_left_as_they_are() -> None:
    assert attributed(b"{}") is None
    assert stored(sent("Secret", {"metadata": named("bob")}, group=""))["metadata"] == named("bob")


def test_webhooks_and_policy_are_about_the_same_kinds() -> None:
    """What the webhook writes the policy guards, and both know the templates of every kind."""
    policy = yaml.safe_load(chart_text("user-policy.yaml"))
    hooks = webhooks("Mutating")["webhooks"]
    written = {
        (rule["apiGroups"][0], one)
        for hook in hooks
        if hook["name"].startswith("user.")
        for rule in hook["rules"]
        for one in rule["resources"]
    }
    guarded = {
        (rule["apiGroups"][0], one)
        for rule in policy["resourceRules"]
        if "CREATE" in rule["operations"]
        for one in rule["resources"]
    }
    assert guarded - written == {("", "pods/binding"), ("", "bindings")}
    assert written <= guarded
    (roles,) = [one["expression"] for one in policy["variables"] if one["name"] == "roles"]
    assert all(f"'{form.field}'" in roles for form in OPERATOR_KINDS.values())


@pytest.mark.parametrize(
    ("before", "after", "named_before", "expected"),
    [
        (None, "Pending", "bob", None),
        (None, "Approved", "bob", "alice"),
        ("Pending", "Approved", None, "alice"),
        ("Approved", "Rejected", "bob", "alice"),
        ("Approved", "Approved", "bob", "bob"),
        ("Pending", "Pending", None, None),
    ],
)
def test_who_sets_the_approval_of_a_plan_is_recorded(
    before: str | None, after: str, named_before: str | None, expected: str | None
) -> None:
    def plan(approval: str, name: str | None) -> Object:
        notes = {} if name is None else {APPROVED_BY: name}
        return {"metadata": {"name": "p", "annotations": notes}, "spec": {"approval": approval}}

    old = None if before is None else plan(before, named_before)
    # What the request says is not believed.
    made = stored(sent("MovePlan", plan(after, "mallory"), "alice", old, group="ringwise.io"))
    assert made["metadata"]["annotations"].get(APPROVED_BY) == expected
