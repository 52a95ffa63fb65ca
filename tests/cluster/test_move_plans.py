"""MovePlans on a real API server: validation, approval, deletion, and a kind that is not served."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkout import ROOT
from tests.cluster.cluster import SOON_SERVED, SOON_STATED, Cluster, node_of, shipped_objects
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import HOLDS_END, Object, nodes, vcjob
from tests.cluster.test_defrag import PLANS, fill, for_gang, is_leaving, is_recorded, wait_for_a_node

pytestmark = pytest.mark.cluster

CRD = "moveplans.ringwise.io"
PAGE = ROOT / "docs" / "reference" / "moveplan.md"
EXAMPLE: Object = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)[0])


def plan(name: str, **spec: Any) -> Object:
    return {**EXAMPLE, "metadata": {"name": name}, "spec": {**EXAMPLE["spec"], **spec}}


REFUSED = {
    "spec.targetRef: Required value": plan("a", targetRef=None),
    "spec.moves in body should have at least 1 items": plan("a", moves=[]),
    "spec.targetRef.uid in body should be at least 1 chars long": plan(
        "a", targetRef={**EXAMPLE["spec"]["targetRef"], "uid": ""}
    ),
    'spec.approval: Unsupported value: "Yes"': plan("a", approval="Yes"),
    'unknown field "spec.force"': plan("a", force=True),
}


def conditions(cluster: Cluster, name: str) -> dict[str, str]:
    """Reason by type, of the conditions of the newest generation."""
    found = cluster.api.get(f"{PLANS}/{name}")
    return {
        one["type"]: one["reason"]
        for one in found.get("status", {}).get("conditions", ())
        if one["observedGeneration"] == found["metadata"]["generation"]
    }


def apply(cluster: Cluster, made: Object, *options: str, check: bool = True) -> str:
    return cluster.kubectl("apply", *options, "-f", "-", stdin=json.dumps(made), check=check)


def approve(cluster: Cluster, name: str, *options: str, to: str = "Approved", check: bool = True) -> str:
    body = json.dumps({"spec": {"approval": to}})
    return cluster.kubectl("patch", "mp", name, "--type=merge", "-p", body, *options, check=check)


def fragmented(cluster: Cluster) -> Object:
    """Train has a chip of one node, and half of the other is used: gang waits for a whole node."""
    cluster.apply([vcjob("train", 1, 1, pod_annotations={HOLDS_END: "true"})])
    (train,) = cluster.wait_running("train", 1)
    fill(cluster, 2 if node_of(train) == "node-1" else 1, 4)
    wait_for_a_node(cluster, "gang")
    found: Object = train
    return found


def planned(cluster: Cluster, operator: Path) -> Object:
    """The plan that the command prints."""
    done = kubectl_ringwise(operator, "defrag", "--plan", "--for", f"{cluster.namespace}/gang", "-o", "yaml")
    assert done.returncode == 0, done.stderr
    (found,) = yaml.safe_load_all(done.stdout)
    assert isinstance(found, dict)
    return found


def account(cluster: Cluster, name: str, role: str = "") -> str:
    """A tenant with the role admin of its namespace, and a ClusterRole of ours."""
    who = f"{cluster.namespace}:{name}"
    cluster.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}])
    subject = f"--serviceaccount={who}"
    cluster.kubectl("create", "rolebinding", f"test-{name}", "--clusterrole=admin", subject)
    if role:
        cluster.kubectl("create", "clusterrolebinding", f"test-{name}", f"--clusterrole={role}", subject)
    return f"--as=system:serviceaccount:{who}"


def test_plans_are_validated_approved_and_deleted_while_they_run(cluster: Cluster, operator: Path) -> None:
    for message, made in REFUSED.items():
        body = {**made, "spec": {key: value for key, value in made["spec"].items() if value is not None}}
        said = cluster.kubectl("create", "-f", "-", stdin=json.dumps(body), check=False)
        assert message in said
    apply(cluster, EXAMPLE, "--dry-run=server")
    cluster.apply(nodes(2))
    cluster.run(waits=SOON_STATED)
    fragmented(cluster)
    made = planned(cluster, operator)
    name = made["metadata"]["name"]
    assert made["spec"]["approval"] == "Pending"

    # Who may create a plan need not be who approves it; a tenant may do neither.
    tenant = account(cluster, "tenant")
    editor = account(cluster, "editor", "ringwise-moveplan-editor")
    approved = {**made, "spec": {**made["spec"], "approval": "Approved"}}
    assert "forbidden" in apply(cluster, made, tenant, check=False)
    assert "needs the right to approve this plan" in apply(cluster, approved, editor, check=False)
    apply(cluster, made, editor)
    for to in ("Approved", "Rejected"):
        assert "needs the right to approve" in approve(cluster, name, editor, to=to, check=False)
    assert "forbidden" in approve(cluster, name, tenant, check=False)
    moves = json.dumps({"spec": {"moves": [{**made["spec"]["moves"][0], "name": "other"}]}})
    changed = cluster.kubectl("patch", "mp", name, "--type=merge", "-p", moves, check=False)
    assert "moves is immutable" in changed
    pending = {"Accepted": "Accepted", "Progressing": "NotApproved"}
    cluster.wait(lambda: pending.items() <= conditions(cluster, name).items(), "it waits for its approval")

    # One that does not hold affects no other.
    wrong = json.loads(json.dumps({**made, "metadata": {"name": "wrong"}}))
    wrong["spec"]["moves"][0]["pods"][0]["to"]["node"] = "node-99"
    apply(cluster, wrong)
    cluster.wait(lambda: conditions(cluster, "wrong").get("Accepted") == "NodeNotFound", "it does not hold")
    findings = json.loads(kubectl_ringwise(operator, "doctor", "-o", "json").stdout)["findings"]
    codes = [one["object"] for one in findings if one["code"] == "move-plan-not-accepted"]
    assert codes == ["MovePlan wrong"]
    listed = json.loads(kubectl_ringwise(operator, "get", "moveplans", "-o", "json").stdout)["moveplans"]
    assert {one["name"]: one["state"] for one in listed} == {name: "pending", "wrong": "pending"}
    assert re.search(rf"{name}\s+{cluster.namespace}\s+\S+\s+Pending\s+True", cluster.kubectl("get", "mp"))
    assert name in cluster.kubectl("get", "ringwise")
    assert "moving 1 job" in kubectl_ringwise(operator, "describe", "moveplan", name).stdout

    # Approved, and then deleted: nothing is held any more.
    approve(cluster, name)
    cluster.wait(lambda: is_leaving(cluster, "train"), "the pod is evicted")
    cluster.wait(lambda: conditions(cluster, name).get("Progressing") == "Moving", "it is carried out")
    said = approve(cluster, name, to="Pending", check=False)
    assert "an approved plan can only be rejected" in said
    second = {**made, "metadata": {"name": "second"}, "spec": {**made["spec"], "approval": "Approved"}}
    apply(cluster, second)

    def waits() -> bool:
        status = cluster.api.get(f"{PLANS}/second").get("status", {}).get("conditions", ())
        return any(one["message"] == f"waits for MovePlan {name}" for one in status)

    cluster.wait(waits, "the other plan waits for it")
    cluster.kubectl("delete", "mp", "second")
    cluster.kubectl("delete", "mp", name)
    cluster.wait(lambda: is_recorded(cluster, running=False), "the plan has ended")
    cluster.release("train")
    cluster.wait_running("train", 1)


def test_a_plan_that_a_command_follows_is_rejected_or_deleted(cluster: Cluster, operator: Path) -> None:
    cluster.apply(nodes(2))
    cluster.run()
    fragmented(cluster)
    running = cluster.begin(operator, *for_gang(cluster))
    cluster.wait(lambda: is_leaving(cluster, "train"), "the pod is evicted")
    (made,) = cluster.api.items(PLANS)
    approve(cluster, made["metadata"]["name"], to="Rejected")
    done = running.finish()
    (ended,) = json.loads(done.stdout)["plans"]
    assert (done.returncode, ended["state"], ended["message"]) == (1, "failed", "its approval was withdrawn")
    cluster.kubectl("delete", "mp", "--all")
    cluster.release("train")
    cluster.wait_running("train", 1)


def install(cluster: Cluster) -> None:
    (definition,) = (one for one in shipped_objects() if one["metadata"]["name"] == CRD)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(definition))
    cluster.wait_established(CRD)


def test_a_plan_goes_on_while_the_kind_is_not_served(cluster: Cluster, operator: Path) -> None:
    cluster.apply(nodes(2))
    cluster.run("scheduler", "controller", waits=SOON_SERVED)
    train = fragmented(cluster)
    made = planned(cluster, operator)
    made["spec"]["approval"] = "Approved"
    apply(cluster, made)
    cluster.wait(lambda: is_leaving(cluster, "train"), "the pod is evicted")
    cluster.kubectl("delete", "crd", CRD)
    try:

        def told() -> bool:
            # It ends with 1 if there are findings.
            findings = json.loads(kubectl_ringwise(operator, "doctor", "-o", "json").stdout)["findings"]
            return any(one["code"] == "kind-not-served" and one["severity"] == "error" for one in findings)

        cluster.wait(told, "doctor reports an error")
        refused = kubectl_ringwise(operator, *for_gang(cluster))
        assert refused.returncode != 0
        # The next leader has it from the record.
        cluster.stop_components()
        cluster.run("scheduler", "controller", waits=SOON_SERVED)
        assert is_recorded(cluster, running=True)
        cluster.release("train")
        (gang,) = cluster.wait_running("gang", 1)
        (moved,) = cluster.wait_running("train", 1)
        assert node_of(gang) == node_of(train) != node_of(moved)
    finally:
        install(cluster)
    # The next plan is taken as soon as the kind is served again.
    apply(cluster, plan("later", approval="Approved"))
    cluster.wait(lambda: conditions(cluster, "later").get("Failed") == "NotCarriedOut", "it is looked at")
    cluster.kubectl("delete", "mp", "--all")


def test_two_operators_apply_at_once(cluster: Cluster, operator: Path) -> None:
    """One plan moves the job; the other waits for it, and then does not hold any more."""
    cluster.apply(nodes(2))
    leader = cluster.run()
    train = fragmented(cluster)
    # Without a scheduler both plans are found for the same cluster.
    cluster.crash(leader)
    both = [cluster.begin(operator, *for_gang(cluster)) for _ in range(2)]
    cluster.wait(lambda: len(cluster.api.items(PLANS)) == 2, "both plans are created")
    cluster.run("scheduler")
    cluster.wait(lambda: is_leaving(cluster, "train"), "the pod is evicted")
    cluster.release("train")
    (gang,) = cluster.wait_running("gang", 1)
    assert node_of(gang) == node_of(train)
    ended = [json.loads(one.finish().stdout)["plans"][0] for one in both]
    assert sorted(one["state"] for one in ended) == ["done", "rejected"]
    (moved,) = cluster.wait_running("train", 1)
    assert moved["metadata"]["uid"] != train["metadata"]["uid"]
