"""Rules N1 to N7 and gangs beyond the worked cases, through `ringwise place`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.objects import (
    chip_list,
    cluster_report,
    filler,
    node,
    node_report,
    pod,
    pod_group,
    pod_spec,
    report,
    vcjob,
)
from tests.builders.values import CHIP
from tests.place.asking import Plain, ask, job_of

POLICY = "huawei.com/schedule_policy"
FIELD = {"multi-pod-requests": "vendor"}


def candidates(job: Plain) -> dict[str, Plain]:
    return {one["node"]: one for one in job["pods"][0]["candidates"]}


def bare(chips: int, **more: Any) -> Plain:
    return pod("job", pod_spec(chips), **more)


# -- N6, N7: who holds a chip ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "holds"),
    [
        ({}, True),
        ({"terminating": True}, True),
        ({"phase": "Pending"}, True),
        ({"phase": "Unknown"}, True),
        ({"phase": "Succeeded"}, False),
        ({"phase": "Failed"}, False),
        ({"phase": "Failed", "terminating": True}, False),
    ],
)
@pytest.mark.parametrize("self_maintain", ["true", "false"])
def test_live_pods_hold_their_chips_until_they_are_gone_N6(
    how: dict[str, Any], holds: bool, self_maintain: str
) -> None:
    objects = [
        node("n-0", devices=range(8)),
        # The report is too old to know that anything is in use.
        node_report("n-0", report(range(8))),
        filler("old", "n-0", [0, 1, 2, 3], **how),
    ]
    job = job_of(ask([*objects, bare(4)], {"self-maintain-available-card": self_maintain}), "job")
    assert job["pods"][0]["chips"] == ([4, 5, 6, 7] if holds else [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("owned", "chips"),
    [("open", None), ("guarded", [0, 1, 2, 3])],
)
def test_N8_mounted_chips_count_beside_the_chosen_ones_unless_the_annotations_are_guarded(
    owned: str, chips: list[int] | None
) -> None:
    old = filler("old", "n-0", [0, 1], annotations={"huawei.com/AscendReal": "Ascend910-6,Ascend910-7"})
    job = job_of(ask([node("n-0"), old, bare(4)], {"owned-annotations": owned}), "job")
    assert job["pods"][0]["chips"] == chips


def test_a_pod_that_names_no_chips_closes_its_node_and_is_named_N7() -> None:
    nameless = pod("stranger", pod_spec(2), on="n-0")
    nameless["spec"]["schedulerName"] = "default-scheduler"
    job = job_of(ask([node("n-0"), nameless, bare(1)]), "job")
    assert job["state"] == "pending"
    assert "vcjob/stranger" in candidates(job)["n-0"]["reason"]["message"]
    other = job_of(ask([node("n-0"), node("n-1"), nameless, bare(1)]), "job")
    assert other["pods"][0]["node"] == "n-1"


@pytest.mark.parametrize("key", [CHIP, "huawei.com/AscendReal"])
@pytest.mark.parametrize("owned", ["open", "guarded"])
def test_a_pod_that_names_fewer_chips_than_it_uses_closes_its_node_and_is_named_N7(
    key: str, owned: str
) -> None:
    """Kubernetes counts as many chips idle as are free here, for one of these is faulty."""
    partial = filler("stranger", "n-0", [0, 1], key=key)
    partial["metadata"]["annotations"][key] = "Ascend910-0"
    faulty = node_report("n-0", report(range(1, 7), unhealthy=[7]))
    objects = [node("n-0", devices=range(8)), faulty, partial, bare(1)]
    job = job_of(ask(objects, {"owned-annotations": owned}), "job")
    assert job["state"] == "pending"
    reason = candidates(job)["n-0"]["reason"]
    assert reason["code"] == "unknown-holder"
    assert reason["message"].endswith("pod vcjob/stranger uses unknown chips (1 of huawei.com/Ascend910)")
    # Each list counts, and together they name what the pod uses.
    other_key = ({CHIP, "huawei.com/AscendReal"} - {key}).pop()
    partial["metadata"]["annotations"][other_key] = "Ascend910-0,Ascend910-4"
    job = job_of(ask(objects, {"owned-annotations": "open"}), "job")
    assert job["pods"][0]["chips"] == [1]


def test_a_pod_without_a_scheduler_name_is_of_another_scheduler_and_holds_its_chips() -> None:
    """As on a cluster, where the API server fills in its own."""
    old, job = filler("old", "n-0", [0, 1, 2, 3]), bare(4)
    del old["spec"]["schedulerName"]
    objects = [node("n-0", devices=range(8)), old, job]
    assert job_of(ask(objects), "job")["pods"][0]["chips"] == [4, 5, 6, 7]
    del job["spec"]["schedulerName"]
    other = job_of(ask(objects), "job")
    assert (other["state"], other["reason"]["code"]) == ("rejected", "other-scheduler")
    assert other["reason"]["details"]["scheduler"] == "default-scheduler"


def test_chips_taken_in_this_run_are_not_free_for_the_next_job_N6() -> None:
    pods = [pod(f"job-{number}", pod_spec(2)) for number in range(6)]
    answer = ask([node("n-0"), *pods], scores=False)
    given = [chip for number in range(4) for chip in job_of(answer, f"job-{number}")["pods"][0]["chips"]]
    assert sorted(given) == list(range(8))
    assert {job_of(answer, f"job-{number}")["state"] for number in (4, 5)} == {"pending"}


def test_recovering_chips_are_not_free_N7() -> None:
    reported = node_report("n-0", report(range(8), recovering=[0, 1]))
    job = job_of(ask([node("n-0"), reported, bare(4)]), "job")
    assert job["pods"][0]["chips"] == [4, 5, 6, 7]


@pytest.mark.parametrize(("use", "chips"), [("true", [4, 5, 6, 7]), ("false", [0, 1, 2, 3])])
def test_the_aggregate_wins_only_where_it_is_used_N7(use: str, chips: list[int]) -> None:
    objects = [
        node("n-0", devices=range(8)),
        node_report("n-0", report(range(8), unhealthy=[5])),
        cluster_report({"n-0": report(range(8), unhealthy=[1])}),
    ]
    job = job_of(ask([*objects, bare(4)], {"useClusterInfoManager": use}), "job")
    assert job["pods"][0]["chips"] == chips


def test_network_faults_count_for_jobs_of_several_pods_only_N1() -> None:
    reported = node_report("n-0", report(range(8), network=[0, 4]))
    silent = node_report("n-0", report(range(8), network=None))
    pair = vcjob("job", [("worker", 2, pod_spec(2))])
    assert job_of(ask([node("n-0"), reported, bare(4)]), "job")["state"] == "scheduled"
    assert job_of(ask([node("n-0"), silent, bare(4)]), "job")["state"] == "scheduled"
    placed = job_of(ask([node("n-0"), reported, pair], FIELD), "job")
    assert not {0, 4} & {chip for one in placed["pods"] for chip in one["chips"]}
    waits = job_of(ask([node("n-0"), silent, pair], FIELD), "job")
    assert waits["state"] == "pending"
    assert "network" in candidates(waits)["n-0"]["reason"]["message"]


def test_faulty_nodes_come_last_where_the_score_counts_faults_N3_N4() -> None:
    objects = [
        node("n-0", chips=7, capacity=8, devices=range(8)),
        node_report("n-0", report(range(1, 8), unhealthy=[0])),
        node("n-1", devices=range(8)),
    ]
    for policy in ({}, {POLICY: "chip8-node8"}):
        job = job_of(ask([*objects, bare(1, annotations=policy)]), "job")
        assert job["pods"][0]["node"] == "n-1"
        assert candidates(job)["n-0"]["accepted"]


@pytest.mark.parametrize("gone", ["not ready", "unknown", "shrunk"])
def test_usage_that_kubernetes_no_longer_counts_takes_nothing_from_free_nodes_N7(gone: str) -> None:
    """Pods on lost nodes, or on more chips than are left, must not eat the queue's share of the rest."""
    broken: list[Plain] = []
    if gone == "not ready":
        broken = [node("n-0", ready=False)]
    elif gone == "shrunk":
        broken = [node("n-0", chips=5, capacity=8)]
    objects = [
        *broken,
        filler("old", "n-0", range(8)),
        node("n-1"),
        vcjob("job", [("worker", 1, pod_spec(8))]),
    ]
    assert job_of(ask(objects), "job")["pods"][0]["node"] == "n-1"


# -- which nodes ----------------------------------------------------------------------------


def test_architecture_matters_only_through_the_node_selector_N7() -> None:
    arm, x86 = (
        node(f"n-{at}", labels={"host-arch": name}) for at, name in enumerate(("huawei-arm", "huawei-x86"))
    )
    wanted = pod("job", pod_spec(8, selector={"host-arch": "huawei-x86"}))
    job = job_of(ask([arm, x86, wanted]), "job")
    assert job["pods"][0]["node"] == "n-1"
    assert set(candidates(job)) == {"n-1"}
    assert job_of(ask([arm, x86, bare(8)]), "job")["pods"][0]["node"] == "n-0"


def test_candidates_are_all_nodes_behind_selector_and_taints() -> None:
    objects = [
        node("n-0", taints=[{"key": "only", "value": "them", "effect": "NoSchedule"}]),
        node("n-1", unschedulable=True),
        node("n-2", chips=None),
        node("n-10"),
        filler("old", "n-10", range(8)),
        node("n-9"),
    ]
    job = job_of(ask([*objects, bare(1)]), "job")
    assert [one["node"] for one in job["pods"][0]["candidates"]] == ["n-2", "n-9", "n-10"]
    assert [one["accepted"] for one in job["pods"][0]["candidates"]] == [False, True, False]
    assert all(one["accepted"] or one["reason"]["fixes"] for one in job["pods"][0]["candidates"])


def test_natural_order_is_the_last_tie_break_N3() -> None:
    names = ["node-10", "node-9", "node-2"]
    assert job_of(ask([*map(node, names), bare(8)]), "job")["pods"][0]["node"] == "node-2"


# -- gangs ----------------------------------------------------------------------------------


SPREAD = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def test_pods_share_a_node_when_the_chips_fit_and_spread_when_they_must_N3() -> None:
    hosts = [node(f"n-{at}", labels={"kubernetes.io/hostname": f"n-{at}"}) for at in range(2)]
    together = job_of(ask([*hosts, vcjob("job", [("worker", 2, pod_spec(2))])], FIELD), "job")
    assert [(one["node"], one["chips"]) for one in together["pods"]] == [("n-0", [0, 1]), ("n-0", [2, 3])]
    spec = pod_spec(2, affinity=SPREAD)
    apart = job_of(ask([*hosts, vcjob("job", [("worker", 2, spec)], pod_labels={"app": "x"})], FIELD), "job")
    assert [one["node"] for one in apart["pods"]] == ["n-0", "n-1"]
    three = vcjob("job", [("worker", 3, spec)], pod_labels={"app": "x"})
    assert job_of(ask([*hosts, three], FIELD), "job")["state"] == "pending"


def test_all_of_a_gang_or_nothing() -> None:
    hosts = [node("n-0"), node("n-1")]
    whole = job_of(ask([*hosts, vcjob("job", [("worker", 3, pod_spec(8))])]), "job")
    assert whole["state"] == "pending"
    assert [one["node"] for one in whole["pods"]] == [None] * 3
    part = job_of(ask([*hosts, vcjob("job", [("worker", 3, pod_spec(8))], minAvailable=2)]), "job")
    assert part["state"] == "scheduled"
    assert [one["node"] for one in part["pods"]] == ["n-0", "n-1", None]
    group = [pod_group("job", 2), *(pod(f"job-{rank}", pod_spec(8), group="job") for rank in range(3))]
    assert [one["node"] for one in job_of(ask([*hosts, *group]), "job")["pods"]] == ["n-0", "n-1", None]


def test_pods_without_chips_change_nothing_else_of_a_job_N2() -> None:
    hosts = [node("n-0"), node("n-1")]
    tasks = [("launcher", 1, pod_spec(0)), ("worker", 2, pod_spec(8))]
    job = job_of(ask([*hosts, vcjob("job", tasks)]), "job")
    assert job["state"] == "scheduled"
    assert [one["name"] for one in job["pods"]] == ["job-worker-0", "job-worker-1", "job-launcher-0"]
    assert {one["node"] for one in job["pods"][:2]} == {"n-0", "n-1"}
    assert not job["pods"][2]["chips"]


def test_the_pods_with_chips_select_the_board_N1() -> None:
    job = vcjob("job", [("a-launcher", 1, pod_spec(0)), ("worker", 1, pod_spec(16))])
    job["spec"]["tasks"][1]["template"]["metadata"] = {"annotations": {POLICY: "chip8-node16"}}
    assert job_of(ask([node("n-0", chips=16), job]), "job")["state"] == "scheduled"


def test_pods_of_a_vcjob_are_found_by_name_or_label() -> None:
    """Files written by hand leave out the PodGroup and what the controller notes on its pods."""
    job = vcjob("job", [("worker", 2, pod_spec(8))])
    for labels in ({}, {"volcano.sh/job-name": "job"}):
        runs = filler("job-worker-1", "n-1", range(8), labels=labels)
        found = job_of(ask([node("n-0"), node("n-1"), job, runs]), "job")
        assert found["state"] == "scheduled"
        assert [(one["rank"], one["node"]) for one in found["pods"]] == [(0, "n-0"), (1, "n-1")]


# -- what can never run ---------------------------------------------------------------------


def test_what_can_never_run_is_refused_and_stops_no_other_job_N2() -> None:
    two = {"containers": [{"name": name, "resources": {"limits": {CHIP: 1}}} for name in "ab"]}
    bad = {
        "two-containers": vcjob("two-containers", [("worker", 1, two)]),
        "three": vcjob("three", [("worker", 1, pod_spec(3))]),
        "small-pods": vcjob("small-pods", [("worker", 2, pod_spec(4))]),
        "board": vcjob("board", [("worker", 1, pod_spec(1))], annotations={POLICY: "chip9-node9"}),
        "later": vcjob("later", [("worker", 1, pod_spec(1))], annotations={POLICY: "multilevel"}),
        "type": vcjob("type", [("worker", 1, pod_spec(1, selector={"accelerator-type": "none-such"}))]),
        "resource": vcjob("resource", [("worker", 1, pod_spec(1, "huawei.com/Ascend999"))]),
        "virtual": vcjob("virtual", [("worker", 1, pod_spec(2, "huawei.com/Ascend910-2c"))]),
        "mixed": vcjob("mixed", [("a", 1, pod_spec(1)), ("b", 1, pod_spec(1, "huawei.com/Ascend310"))]),
        "ownerless": pod("ownerless", pod_spec(1), group="no-such-group"),
        "queue": vcjob("queue", [("worker", 1, pod_spec(1))], queue="no-such-queue"),
    }
    answer = ask([node("n-0"), *bad.values(), bare(8)])
    names = {"ownerless": "no-such-group"}
    for name in bad:
        assert job_of(answer, names.get(name, name))["state"] in ("rejected", "pending")
    never = set(bad) - {"ownerless", "queue"}
    assert {job_of(answer, name)["state"] for name in never} == {"rejected"}
    assert job_of(answer, "job")["state"] == "scheduled"


# -- what travels with a binding


RANK_TABLE = "ascend.kubectl.kubernetes.io/ascend-910-configuration"


@pytest.mark.parametrize("operator", [True, False])
@pytest.mark.parametrize(
    ("infos", "written"),
    [
        (None, False),
        ({f"Ascend910-{chip}": {"IP": ""} for chip in range(8)}, False),
        ({f"Ascend910-{chip}": {"IP": "" if chip == 3 else f"10.1.0.{chip}"} for chip in range(8)}, False),
        ({f"Ascend910-{chip}": {"IP": f"10.1.0.{chip}"} for chip in range(8)}, True),
        ({f"Ascend910-{chip}": {"IP": "", "SuperDeviceID": chip + 1} for chip in range(8)}, True),
    ],
)
def test_a_rank_table_is_written_only_with_addresses(
    operator: bool, infos: dict[str, Any] | None, written: bool
) -> None:
    """Without them the device plugin writes both annotations; it skips a pod that has them (D1, D2)."""
    notes = {} if infos is None else {"baseDeviceInfos": json.dumps(infos)}
    labels = {"training.kubeflow.org/operator-name": "ascendjob-controller"} if operator else {}
    answer = ask([node("n-0", annotations=notes), pod("whole", pod_spec(8), labels=labels)])
    (placed,) = job_of(answer, "whole")["pods"]
    assert placed["annotations"]["huawei.com/Ascend910"] == chip_list(CHIP, range(8))
    assert ("huawei.com/AscendReal" in placed["annotations"]) is written
    assert (RANK_TABLE in placed["annotations"]) is written
    if written:
        devices = json.loads(placed["annotations"][RANK_TABLE])["devices"]
        assert all(device["device_ip"] or device["super_device_id"] for device in devices)


# -- jobs that are placed as a whole ---------------------------------------------------------

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "files",
    [
        ("racks/one-rack-nodes.json", "racks/job.yaml"),
        ("superpods/sequence-nodes.json", "superpods/one-job.yaml"),
        ("switches/padding.yaml",),
        ("switches/exclusive-pass.yaml",),
    ],
)
def test_a_job_that_selects_no_node_is_told_why_whatever_it_is_placed_by(files: tuple[str, ...]) -> None:
    objects: list[Plain] = []
    for name in files:
        for document in yaml.load_all((EXAMPLES / name).read_text(), yaml.CSafeLoader):
            objects += document.get("items", [document])
    nodes = [one for one in objects if one["kind"] == "Node"]
    for one in nodes:
        one.setdefault("spec", {})["taints"] = [{"key": "team", "value": "x", "effect": "NoSchedule"}]
    job = job_of(ask(objects), "train")
    assert job["reason"]["message"].endswith(f": untolerated-taint {len(nodes)}")
