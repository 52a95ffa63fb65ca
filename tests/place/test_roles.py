"""Jobs whose pods differ (S13, P8) and SuperPoD jobs that start with a part of their blocks (P8)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.objects import filler, node, pod, pod_group, pod_spec, topology, vcjob
from tests.place.asking import Plain, ask, job_of

HOST = "kubernetes.io/hostname"
MODEL = {"tor-affinity": "large-model-schema"}
COMMON = {"tor-affinity": "normal-schema"}
V1, V2 = {"nslb-version": "1.0"}, {"nslb-version": "2.0"}


def leaves(*zones: str, level: str | None = None) -> list[Plain]:
    """Switches t0, t1 ...; every letter of a word is a node in that zone."""
    nodes: list[Plain] = []
    switches: list[tuple[str, list[tuple[str, int]]]] = []
    for number, word in enumerate(zones):
        servers = []
        for place, zone in enumerate(word):
            at = len(nodes)
            nodes.append(node(f"n{at}", ip=f"10.0.0.{at}", labels={"zone": zone, HOST: f"n{at}"}))
            servers.append((f"10.0.0.{at}", place))
        switches.append((f"t{number}", servers))
    return [topology(switches, max(map(len, zones)), level), *nodes]


def roles(*tasks: tuple[str, int, dict[str, str]], chips: int = 8, **more: Any) -> Plain:
    return vcjob(
        "J", [(name, count, pod_spec(chips, selector=where)) for name, count, where in tasks], **more
    )


def nodes_of(job: Plain) -> dict[str, str | None]:
    return {one["name"].removeprefix("J-"): one["node"] for one in job["pods"]}


A, B = {"zone": "a"}, {"zone": "b"}


@pytest.mark.parametrize("settings", [V1, V2])
@pytest.mark.parametrize("labels", [MODEL, COMMON])
def test_roles_with_disjoint_selectors_are_placed_S13(
    settings: dict[str, str], labels: dict[str, str]
) -> None:
    job = roles(("ps", 2, A), ("worker", 2, B), labels=labels)
    found = job_of(ask([*leaves("abab", "aabb"), job], settings, scores=False), "J")
    assert nodes_of(found) == {"ps-0": "n0", "ps-1": "n2", "worker-0": "n1", "worker-1": "n3"}


def test_a_role_may_need_another_switch_S13() -> None:
    job = roles(("ps", 2, B), ("worker", 4, A), labels=MODEL)
    found = job_of(ask([*leaves("aaaa", "bb", "ab"), job], V2, scores=False), "J")
    assert nodes_of(found) == {"ps-0": "n4", "ps-1": "n5"} | {f"worker-{at}": f"n{at}" for at in range(4)}
    assert [one["annotations"]["isSharedTor"] for one in found["pods"]] == ["2"] * 6


@pytest.mark.parametrize("settings", [V1, V2])
def test_a_pinned_master_keeps_no_worker_from_its_nodes_S13(settings: dict[str, str]) -> None:
    job = roles(("master", 1, {HOST: "n2"}), ("worker", 3, {}), labels=COMMON)
    found = job_of(ask([*leaves("aaaa", "aaaa"), job], settings, scores=False), "J")
    assert nodes_of(found) == {"master-0": "n2", "worker-0": "n0", "worker-1": "n1", "worker-2": "n3"}


@pytest.mark.parametrize("level", [None, "single_layer"])
def test_a_padding_job_with_a_pinned_pod_goes_where_that_pod_can_be_S3_S13(level: str | None) -> None:
    job = roles(("master", 1, {HOST: "n5"}), ("worker", 1, {}), labels=MODEL)
    found = job_of(ask([*leaves("aa", "aaaa", level=level), job], V2, scores=False), "J")
    assert nodes_of(found) == {"master-0": "n5", "worker-0": "n2"}


def test_pods_of_different_sizes_use_nodes_that_only_the_small_ones_can_take_S13() -> None:
    objects = [*leaves("aaaa"), filler("old", "n0", range(4))]
    tasks = [("big", 3, pod_spec(8)), ("small", 1, pod_spec(4))]
    job = vcjob("J", tasks, labels=COMMON)
    found = job_of(ask([*objects, job], {**V2, "multi-pod-requests": "vendor"}, scores=False), "J")
    assert nodes_of(found) == {"big-0": "n1", "big-1": "n2", "big-2": "n3", "small-0": "n0"}
    assert found["pods"][3]["chips"] == [4, 5, 6, 7]


def test_the_reason_names_the_role_that_lacks_nodes_S13() -> None:
    objects = [*leaves("aab", "aab"), filler("old", "n2", range(8))]
    job = roles(("ps", 2, B), ("worker", 2, A), labels=MODEL)
    reason = job_of(ask([*objects, job], V2, scores=False), "J")["reason"]
    assert reason["code"] == "pods-need-different-nodes"
    assert reason["message"] == (
        "4 pods need different nodes; only 3 fit: of 5 free nodes under leaf switches "
        "ps (2 pods) can take 1, worker (2 pods) can take 4"
    )
    assert any(fix.endswith("old to end") for fix in reason["fixes"])
    # Together the nodes suffice, but not under one switch.
    padding = roles(("ps", 1, B), ("worker", 2, A), labels=MODEL)
    reason = job_of(ask([*leaves("aa", "ab", "ab"), padding], V2, scores=False), "J")["reason"]
    assert reason["code"] == "one-switch-too-small"
    assert "needs 3 free nodes under one leaf switch; the best, t0, has 2" in reason["message"]
    assert "ps (1 pod) can take 2" in reason["message"]


def test_as_many_roles_as_fit_start_where_the_gang_is_smaller_S10_S13() -> None:
    job = roles(("master", 1, {"zone": "none"}), ("worker", 4, A), labels=COMMON, minAvailable=3)
    found = job_of(ask([*leaves("aaa", "ab"), job], V2, scores=False), "J")
    assert nodes_of(found) == {
        "master-0": None,
        "worker-0": "n0",
        "worker-1": "n1",
        "worker-2": "n2",
        "worker-3": "n3",
    }


@pytest.mark.parametrize("labels", [COMMON, {}])
def test_a_pod_that_finds_no_node_does_not_stop_those_behind_it(labels: dict[str, str]) -> None:
    """Beyond the gang every pod is tried, whatever the pods before it need."""
    job = roles(("a", 1, A), ("b", 1, {"zone": "none"}), ("c", 2, A), labels=labels, minAvailable=1)
    found = job_of(ask([*leaves("aaa"), job], V2, scores=False), "J")
    assert [name for name, on in nodes_of(found).items() if on is None] == ["b-0"]


# -- SuperPoDs ---------------------------------------------------------------------------------


def superpods(*zones: str) -> list[Plain]:
    return [
        node(
            f"s{number}-{place}",
            chips=16,
            labels={"zone": zone, HOST: f"s{number}-{place}"},
            annotations={"superPodID": str(number)},
        )
        for number, word in enumerate(zones)
        for place, zone in enumerate(word)
    ]


def blocks_of(job: Plain) -> dict[str, tuple[str, int] | None]:
    return {
        one["name"].removeprefix("J-"): (one["node"], one["logical_superpod"]) if one["node"] else None
        for one in job["pods"]
    }


NO_RESERVE = {"reserve-nodes": "0"}


def test_superpod_roles_with_disjoint_selectors_are_placed_P8() -> None:
    job = roles(("ps", 2, B), ("worker", 2, A), chips=16, annotations={"sp-block": "32"})
    found = job_of(ask([*superpods("aab", "bba"), job], NO_RESERVE, scores=False), "J")
    assert blocks_of(found) == {
        "ps-0": ("s1-0", 0),
        "ps-1": ("s1-1", 0),
        "worker-0": ("s0-0", 1),
        "worker-1": ("s0-1", 1),
    }


def test_a_pinned_master_of_a_block_P8() -> None:
    job = roles(("master", 1, {HOST: "s1-2"}), ("worker", 3, {}), chips=16, annotations={"sp-block": "64"})
    found = job_of(ask([*superpods("aaaa", "aaaa"), job], NO_RESERVE, scores=False), "J")
    assert blocks_of(found) == {
        "master-0": ("s1-2", 0),
        "worker-0": ("s1-0", 0),
        "worker-1": ("s1-1", 0),
        "worker-2": ("s1-3", 0),
    }


def test_the_reason_of_a_superpod_job_names_the_role_P8() -> None:
    job = roles(("ps", 2, B), ("worker", 2, A), chips=16, annotations={"sp-block": "32"})
    reason = job_of(ask([*superpods("aab", "aaa"), job], NO_RESERVE, scores=False), "J")["reason"]
    assert reason["code"] == "pods-need-different-nodes"
    assert (
        "of 6 free nodes of SuperPoDs ps (2 pods) can take 1, worker (2 pods) can take 5" in reason["message"]
    )


@pytest.mark.parametrize(
    ("minimum", "placed"), [(6, 0), (5, 0), (4, 4), (3, 4), (1, 4)], ids=lambda value: str(value)
)
@pytest.mark.parametrize("soft", [False, True])
def test_a_part_of_the_blocks_starts_when_it_holds_min_available_P8(
    minimum: int, placed: int, soft: bool
) -> None:
    labels = {"super-pod-affinity": "soft"} if soft else {}
    job = roles(
        ("worker", 6, {}), chips=16, labels=labels, annotations={"sp-block": "32"}, minAvailable=minimum
    )
    found = job_of(ask([*superpods("aaa", "aa"), job], NO_RESERVE, scores=False), "J")
    on = [one["node"] for one in found["pods"]]
    assert on == ["s1-0", "s1-1", "s0-0", "s0-1"][:placed] + [None] * (6 - placed)
    assert found["state"] == ("scheduled" if placed else "pending")


@pytest.mark.parametrize(
    ("key", "needed", "fix"),
    [
        ("part", 5, "lower minPartitions (minSubGroups) from 5 to 2"),
        ("absent", 1, "lower minPartitions (minSubGroups) from 1 to 0"),
    ],
)
def test_of_sub_groups_no_more_is_given_up_than_must_be(key: str, needed: int, fix: str) -> None:
    policy = {"name": "part", "matchLabelKeys": [key], "subGroupSize": 2, "minSubGroups": needed}
    objects = [
        *(node(f"node-{number}") for number in range(4)),
        pod_group("job", 2, subGroupPolicy=[policy]),
        *(
            pod(f"job-{number}", pod_spec(8), group="job", labels={"part": str(number % 2)})
            for number in range(4)
        ),
    ]
    assert job_of(ask(objects), "job")["reason"]["fixes"] == [fix]
