"""Which nodes the claims of a pod's volumes allow, and what those claims get there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringwise.actions.allocate import allocate
from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import first_reason
from ringwise.framework.gangs.gang_placement import node_filters
from ringwise.framework.session import Session
from ringwise.reasons import Reason
from ringwise.state.model import NodeTerm, Requirement
from ringwise.state.volume_table import ClaimChoice, drop, put
from ringwise.state.volumes import (
    NO_PROVISIONER,
    ClaimReference,
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
)
from tests.builders import values
from tests.builders.session_lab import CountedSteps, Lab, cluster, option
from tests.builders.values import GIB, on_node

ONCE, MANY, ONE_POD = ("ReadWriteOnce",), ("ReadWriteMany",), ("ReadWriteOncePod",)
ALL = ["n1", "n2", "n3"]
ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def term(key: str, *values: str) -> NodeTerm:
    return NodeTerm(labels=(Requirement(key, "In", values),))


def disks(*claims: str, pods: int = 1, **asked: Any) -> Lab:
    """Three nodes in three zones, the classes `fast` and `local`, and a job whose pods use these claims."""
    lab = cluster()
    for number, zone in enumerate("abc", start=1):
        lab.node(f"n{number}", cpu=4000, labels={"zone": zone, ZONE: zone})
    table = lab.state.volumes
    put(table.classes, StorageClass("fast", "disk.example.com", waits_for_pod=True))
    put(table.classes, StorageClass("local", NO_PROVISIONER, waits_for_pod=True))
    put(table.classes, StorageClass("now", "disk.example.com"))
    lab.job("new", pods=pods, inqueue=True, **({"cpu": 1000} | asked))
    for index in range(pods):
        lab.change(f"new-{index}", claims=tuple(name.format(index) for name in claims))
    lab["new"].has_claims = True
    return lab


def claim(lab: Lab, name: str = "data", storage_class: str = "fast", **more: Any) -> None:
    lab.state.volumes.put_claim(values.claim(name, storage_class, **more))


def volume(lab: Lab, name: str, storage_class: str = "local", **more: Any) -> None:
    lab.state.volumes.put_volume(values.volume(name, storage_class, **more))


def bound(lab: Lab, name: str = "data", **more: Any) -> None:
    """A claim with its volume."""
    modes = more.pop("access_modes", ONCE)
    claim(lab, name, volume=f"pv-{name}", bound=True, phase="Bound", access_modes=modes)
    reference = ClaimReference("default", name, f"uid-{name}")
    volume(lab, f"pv-{name}", claim=reference, phase="Bound", access_modes=modes, **more)


def allowed(lab: Lab, pod: str = "new-0", plugin: str | PluginOption = "predicates") -> list[str]:
    return list(reasons(lab, pod, plugin, wanted=False))


def reasons(
    lab: Lab, pod: str = "new-0", plugin: str | PluginOption = "predicates", *, wanted: bool = True
) -> dict[str, str]:
    """Of nodes that are refused, or of those that are not, the codes of the reasons."""
    session = lab.session(plugin)
    found: dict[str, str] = {}
    for number in lab.state.existing_nodes():
        reason = verdict(lab, session, pod, number)
        if reason is not None:
            assert reason.fixes
            assert "unknown)" not in reason.message + " ".join(reason.fixes)
        if (reason is not None) is wanted:
            found[lab.state.names[number]] = "" if reason is None else reason.code
    return found


def verdict(lab: Lab, session: Session, name: str, number: int) -> Reason | None:
    pod, job = lab.pod(name), lab["new"]
    refused = session.claim_refusal(pod)
    if refused is not None:
        return refused
    reason = session.node_selection(job, pod).verdict(number)[1]
    return reason or first_reason(node_filters(session, job, pod), number)


# -- claims that keep the pod waiting ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (None, "claim-missing"),
        ({"storage_class": "now"}, "claim-not-bound"),
        ({"storage_class": ""}, "claim-not-bound"),
        ({"storage_class": "fast", "volume": "mine"}, "claim-not-bound"),
        ({"storage_class": "nowhere"}, "storage-class-missing"),
        ({"storage_class": "local"}, "no-matching-volume"),
        ({"storage_class": "local", "deleting": True}, "claim-deleted"),
        ({"volume": "gone", "bound": True}, "claim-lost"),
        ({"volume": "gone", "phase": "Lost"}, "claim-lost"),
    ],
)
def test_a_pod_waits_for_a_claim_and_the_reason_names_it(fields: dict[str, Any] | None, code: str) -> None:
    lab = disks("data")
    if fields is not None:
        claim(lab, **fields)
    reason = lab.session("predicates").claim_refusal(lab.pod("new-0"))
    assert reason is not None
    assert reason.code == code
    assert "default/data" in reason.message
    assert "unknown)" not in reason.message + " ".join(reason.fixes)
    session = lab.session("predicates", "gang")
    filters = node_filters(session, lab["new"], lab.pod("new-0"))
    assert {first_reason(filters, number) for number in lab.state.existing_nodes()} == {reason}
    allocate(session)
    assert lab["new"].reason == reason


@pytest.mark.parametrize(("usable", "admitted"), [(3, True), (2, True), (1, False), (0, False)])
def test_a_job_is_admitted_where_the_claims_of_its_minimum_can_be_used(usable: int, admitted: bool) -> None:
    lab = disks("data-{}", pods=3, min_available=2)
    for index in range(usable):
        claim(lab, f"data-{index}")
    permitted, reason = lab.session("predicates").job_enqueueable(lab["new"])
    assert permitted is admitted
    assert (None if reason is None else reason.code) == (None if admitted else "claim-missing")


def test_a_claim_of_an_ephemeral_volume_must_be_made_for_the_pod() -> None:
    lab = disks("new-0-scratch").change("new-0", ephemeral_claims=("new-0-scratch",))
    assert set(reasons(lab).values()) == {"ephemeral-claim-not-created"}
    claim(lab, "new-0-scratch", owner="another")
    assert set(reasons(lab).values()) == {"claim-of-another-pod"}
    claim(lab, "new-0-scratch", owner="new-0")
    assert allowed(lab) == ALL


def test_one_pod_alone_uses_a_claim_that_is_for_one_pod() -> None:
    lab = disks("data", pods=2)
    bound(lab, access_modes=ONE_POD)
    assert allowed(lab) == ALL
    allocate(lab.session("predicates"))
    assert [record.node >= 0 for record in lab.state.pods.values()] == [False, False]
    lab["new"].min_available = 1
    allocate(lab.session("predicates"))
    assert [record.node >= 0 for record in lab.state.pods.values()] == [True, False]
    assert set(reasons(lab, "new-1").values()) == {"claim-in-use"}
    lab.state.release("new-0")
    assert allowed(lab, "new-1") == ALL


def test_a_claim_that_a_running_pod_of_the_gang_uses_is_free_when_that_pod_ends() -> None:
    """It is not told to use separate claims: a pod that takes the place of another one waits for its end."""
    lab = disks("data", pods=2)
    bound(lab, access_modes=ONE_POD)
    lab.change("new-0", node="n1", phase="Running")
    assert set(reasons(lab, "new-1").values()) == {"claim-in-use"}


def test_the_other_pods_of_a_job_start_without_the_one_that_waits() -> None:
    lab = disks("data-{}", pods=3)
    claim(lab, "data-0")
    claim(lab, "data-2")
    lab["new"].min_available = 2
    allocate(lab.session("predicates", "gang"))
    assert [record.node >= 0 for record in lab.state.pods.values()] == [True, False, True]
    reason = lab["new"].reason
    assert reason is not None
    assert (reason.code, reason.details["claim"]) == ("claim-missing", "default/data-1")


# -- volumes that exist -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "labels", "nodes"),
    [
        ((), {}, ALL),
        ((term("zone", "b"),), {}, ["n2"]),
        ((term("zone", "b"), term("zone", "c")), {}, ["n2", "n3"]),
        (on_node("n3"), {}, ["n3"]),
        ((), {ZONE: "a"}, ["n1"]),
        ((), {ZONE: "a__c"}, ["n1", "n3"]),
        ((), {OLD_ZONE: "b"}, ["n2"]),
        ((), {ZONE: "a", "topology.kubernetes.io/region": "west"}, []),
        ((term("zone", "a", "b"),), {ZONE: "b__c"}, ["n2"]),
        ((), {"zone": "elsewhere"}, ALL),
    ],
)
def test_a_bound_volume_decides_where_its_pod_may_be(
    terms: tuple[NodeTerm, ...], labels: dict[str, str], nodes: list[str]
) -> None:
    lab = disks("data")
    bound(lab, node_terms=terms, labels=labels)
    assert allowed(lab) == nodes


def test_nodes_that_do_not_say_where_they_are_can_use_volumes_of_any_zone() -> None:
    lab = disks("data").node("n4", cpu=4000)
    bound(lab, labels={ZONE: "a"})
    assert allowed(lab) == ["n1", "n4"]


def test_zones_count_only_where_the_configuration_says_so() -> None:
    lab = disks("data")
    bound(lab, labels={ZONE: "a"})
    assert allowed(lab, plugin=option("predicates", predicate_VolumeZoneEnable=False)) == ALL


# -- claims that get their volume with the node ----------------------------------------------------


def chosen(lab: Lab, node: str, pod: str = "new-0") -> tuple[ClaimChoice, ...] | str:
    rules = lab.session("predicates").claim_rules
    assert rules is not None
    found = rules.choose(lab.pod(pod), lab.state.node_id[node])
    return found.code if isinstance(found, Reason) else found


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({}, True),
        ({"capacity": GIB - 1}, False),
        ({"access_modes": MANY}, False),
        ({"access_modes": (*ONCE, *MANY)}, True),
        ({"storage_class": "other"}, False),
        ({"block": True}, False),
        ({"deleting": True}, False),
        ({"phase": "Released"}, False),
        ({"phase": "Pending"}, False),
        ({"claim": ClaimReference("default", "other")}, False),
        ({"claim": ClaimReference("default", "data")}, True),
        ({"claim": ClaimReference("default", "data", "older")}, False),
        ({"node_terms": (term("zone", "a"),)}, True),
        ({"node_terms": (term("zone", "b"),)}, False),
    ],
)
def test_which_free_volume_fits_a_claim(fields: dict[str, Any], fits: bool) -> None:
    lab = disks("data")
    claim(lab, storage_class="local")
    volume(lab, "disk", **fields)
    got = chosen(lab, "n1")
    assert got == (ClaimChoice("default/data", "disk"),) if fits else isinstance(got, str)


def test_a_volume_that_names_the_claim_is_taken_where_it_can_be_used_and_nothing_else() -> None:
    lab = disks("data")
    claim(lab)
    volume(lab, "mine", "fast", claim=ClaimReference("default", "data"), node_terms=(term("zone", "b"),))
    assert reasons(lab) == {"n1": "volume-node-affinity-conflict", "n3": "volume-node-affinity-conflict"}
    assert chosen(lab, "n1") == "volume-node-affinity-conflict"
    assert chosen(lab, "n2") == (ClaimChoice("default/data", "mine"),)


def test_a_selector_of_a_claim_chooses_among_volumes() -> None:
    lab = disks("data")
    claim(lab, storage_class="local", selector=(Requirement("kind", "In", ("ssd",)),))
    volume(lab, "a", labels={"kind": "hdd"})
    volume(lab, "b", labels={"kind": "ssd"})
    assert chosen(lab, "n1") == (ClaimChoice("default/data", "b"),)


def test_the_smallest_volume_is_taken_and_small_claims_come_first() -> None:
    lab = disks("large", "small")
    claim(lab, "large", "local", requested=2 * GIB)
    claim(lab, "small", "local")
    for name, size in (("c", 8), ("b", 4), ("a", 1)):
        volume(lab, name, capacity=size * GIB)
    volume(lab, "d", capacity=2 * GIB, node_terms=on_node("n1"))
    assert chosen(lab, "n1") == (ClaimChoice("default/small", "a"), ClaimChoice("default/large", "d"))
    assert chosen(lab, "n2") == (ClaimChoice("default/small", "a"), ClaimChoice("default/large", "b"))


def test_two_claims_of_a_pod_do_not_take_one_volume() -> None:
    lab = disks("one", "two")
    claim(lab, "one", "local")
    claim(lab, "two", "local")
    volume(lab, "only")
    assert chosen(lab, "n1") == "no-matching-volume-on-node"


def test_two_pods_of_a_gang_do_not_take_one_volume() -> None:
    lab = disks("data-{}", pods=2)
    for index in range(2):
        claim(lab, f"data-{index}", "local")
    volume(lab, "only")
    allocate(lab.session("predicates", "gang"))
    assert lab.state.volumes.holders == {}
    assert lab["new"].reason is not None
    assert lab["new"].reason.details["refusals"] == {"no-matching-volume-on-node": 3}
    volume(lab, "more", node_terms=on_node("n2"))
    allocate(lab.session("predicates", "gang"))
    assert set(lab.state.volumes.holders) == {"more", "only"}


def test_a_volume_is_given_to_another_claim_when_the_last_pod_of_its_claim_is_gone() -> None:
    lab = disks("shared", pods=2)
    for name in ("shared", "other"):
        claim(lab, name, "local", access_modes=MANY)
    volume(lab, "only", access_modes=MANY)
    for pod in ("new-0", "new-1"):
        lab.state.place(pod, 0, 0, (ClaimChoice("default/shared", "only"),))
    lab.job("next", cpu=1000).change("next-0", claims=("other",))
    for pod in ("new-0", "new-1"):
        assert chosen(lab, "n1", "next-0") == "no-matching-volume-on-node"
        lab.state.drop_pod(pod)
    assert chosen(lab, "n1", "next-0") == (ClaimChoice("default/other", "only"),)


def test_a_volume_is_made_where_the_class_allows_it() -> None:
    lab = disks("data")
    claim(lab)
    assert allowed(lab) == ALL
    assert chosen(lab, "n2") == (ClaimChoice("default/data"),)
    allowing = StorageClass("fast", "disk.example.com", True, (term("zone", "b", "c"),))
    put(lab.state.volumes.classes, allowing)
    assert reasons(lab) == {"n1": "no-matching-volume-on-node"}
    # A volume that exists may be elsewhere.
    volume(lab, "disk", "fast", node_terms=on_node("n1"))
    assert allowed(lab) == ALL


def test_a_claim_whose_volume_is_being_made_pins_its_pod() -> None:
    lab = disks("data")
    claim(lab, selected_node="n2")
    assert reasons(lab) == {"n1": "volume-for-another-node", "n3": "volume-for-another-node"}
    # A node that is gone pins nobody, and pods on several nodes can use a volume that is shared.
    claim(lab, selected_node="n9")
    assert allowed(lab) == ALL
    claim(lab, selected_node="n2", access_modes=MANY)
    assert allowed(lab) == ALL


def test_nodes_that_the_provisioner_refused_are_avoided() -> None:
    lab = disks("data")
    claim(lab)
    lab.state.volumes.refused["default/data"] = {"n1": 1, "n3": 1}
    assert reasons(lab) == {"n1": "no-matching-volume-on-node", "n3": "no-matching-volume-on-node"}


# -- how many volumes a node attaches ---------------------------------------------------------------


def attaching(limit: int | None, **more: Any) -> Lab:
    lab = disks("data", **more)
    limits = {} if limit is None else {"disk.example.com": limit}
    put(lab.state.volumes.csi_nodes, CsiNode("n1", limits))
    for index, (node, name) in enumerate([("n1", "used"), ("n1", "used"), ("n2", "else")]):
        bound(lab, name, driver="disk.example.com", handle=f"h-{name}")
        lab.job(f"old{index}", cpu=1, on=node).change(f"old{index}-0", claims=(name,))
    return lab


@pytest.mark.parametrize(("limit", "nodes"), [(None, ALL), (2, ALL), (1, ["n2", "n3"]), (0, ["n2", "n3"])])
def test_a_node_attaches_at_most_so_many_volumes(limit: int | None, nodes: list[str]) -> None:
    lab = attaching(limit)
    bound(lab, driver="disk.example.com", handle="h-data")
    assert allowed(lab) == nodes


def test_a_volume_that_is_to_be_made_counts_for_its_class() -> None:
    lab = attaching(1)
    claim(lab)
    assert reasons(lab) == {"n1": "too-many-volumes"}


def test_a_volume_that_the_node_has_already_needs_no_room() -> None:
    lab = attaching(1)
    bound(lab, driver="disk.example.com", handle="h-used")
    assert allowed(lab) == ALL


@pytest.mark.parametrize("driver", ["", "other.example.com"])
def test_other_volumes_are_not_limited(driver: str) -> None:
    lab = attaching(1)
    bound(lab, driver=driver, handle="h-data" if driver else "")
    assert allowed(lab) == ALL


def test_limits_count_only_where_the_configuration_says_so() -> None:
    lab = attaching(1)
    bound(lab, driver="disk.example.com", handle="h-data")
    off = option("predicates", predicate_NodeVolumeLimitsEnable=False)
    assert allowed(lab, plugin=off) == ALL


# -- how much storage a driver has room for ------------------------------------------------------------


def with_storage(**sizes: int) -> Lab:
    """The driver of `fast` has room for volumes of so many GiB in these zones; nowhere else."""
    lab = disks("data")
    table = lab.state.volumes
    put(table.drivers, CsiDriver("disk.example.com", publishes_capacity=True))
    for zone, size in sizes.items():
        nodes = (Requirement("zone", "In", (zone,)),)
        table.put_capacity(StorageCapacity("kube-system", zone, "fast", nodes, size * GIB))
    return lab


def test_a_volume_is_made_only_where_the_driver_has_room_for_it() -> None:
    lab = with_storage(a=4, b=1)
    claim(lab, requested=2 * GIB)
    assert reasons(lab) == {"n2": "insufficient-storage-on-node", "n3": "insufficient-storage-on-node"}
    session = lab.session("predicates")
    messages = [
        reason.message if (reason := verdict(lab, session, "new-0", number)) else "" for number in (1, 2)
    ]
    assert messages == [
        f"the claim default/data requests 2 GiB of StorageClass fast; the largest capacity "
        f"for {node} is {size} (CSIStorageCapacity)"
        for size, node in (("1 GiB", "n2"), ("0", "n3"))
    ]
    rules = session.claim_rules
    assert rules is not None
    assert rules.choose(lab.pod("new-0"), 0) == (ClaimChoice("default/data"),)
    chosen = rules.choose(lab.pod("new-0"), 1)
    assert isinstance(chosen, Reason)
    assert chosen.message == messages[0]


def test_a_claim_for_which_no_node_has_room_is_named() -> None:
    lab = with_storage(a=4, b=1)
    claim(lab, requested=5 * GIB)
    reason = lab.session("predicates").claim_refusal(lab.pod("new-0"))
    assert reason is not None
    assert reason.message == (
        "claim default/data of new-0 requests 5 GiB of StorageClass fast; "
        "largest capacity: 4 GiB (CSIStorageCapacity)"
    )


@pytest.mark.parametrize("why", ["silent", "no driver", "nothing published", "another driver", "no request"])
def test_where_the_driver_does_not_say_it_nothing_is_checked(why: str) -> None:
    lab = with_storage(**({} if why == "nothing published" else {"a": 1}))
    table = lab.state.volumes
    claim(lab, requested=0 if why == "no request" else 2 * GIB)
    match why:
        case "silent":
            put(table.drivers, CsiDriver("disk.example.com"))
        case "no driver":
            drop(table.drivers, "disk.example.com")
        case "another driver":
            put(table.classes, StorageClass("fast", "other.example.com", waits_for_pod=True))
    assert allowed(lab) == ALL


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        # What exists or is being made already needs no room.
        ({"selected_node": "n3"}, ["n3"]),
        ({"volume": "pv-data", "bound": True, "phase": "Bound"}, ALL),
        # A volume that is free needs none either.
        ({"requested": 3 * GIB}, ["n1", "n2"]),
        # Each claim is looked at by itself, as kube-scheduler does.
        ({"requested": 2 * GIB}, ["n1"]),
    ],
)
def test_only_what_is_to_be_made_needs_room(fields: dict[str, Any], nodes: list[str]) -> None:
    lab = with_storage(a=4)
    claim(lab, **{"requested": 2 * GIB, **fields})
    if fields.get("bound"):
        volume(lab, "pv-data", "fast")
    elif fields.get("requested") == 3 * GIB:
        volume(lab, "free", "fast", capacity=3 * GIB, node_terms=on_node("n2"))
    else:
        claim(lab, "other", requested=3 * GIB)
        lab.change("new-0", claims=("data", "other") if nodes == ["n1"] else ("data",))
    assert allowed(lab) == nodes


def test_the_selected_node_of_a_class_that_makes_nothing_does_not_count() -> None:
    lab = disks("data")
    claim(lab, storage_class="local", selected_node="n1")
    assert set(reasons(lab).values()) == {"no-matching-volume"}
    volume(lab, "there", node_terms=on_node("n3"))
    assert allowed(lab) == ["n3"]


# -- what it costs -----------------------------------------------------------------------------------


def test_pods_without_claims_are_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = cluster().nodes(3, cpu=4000).job("plain", pods=2, cpu=1000, inqueue=True)
    session = lab.session("predicates")

    def asked(*_: object) -> None:
        raise AssertionError("a pod without claims was looked at")

    rules = session.claim_rules
    assert rules is not None
    for name in ("refusal", "node_sets", "choose"):
        monkeypatch.setattr(rules, name, asked)
    for name in ("hold", "unhold"):
        monkeypatch.setattr(lab.state.volumes, name, asked)
    allocate(session)
    assert all(record.node >= 0 for record in lab.state.pods.values())
    assert lab.state.volumes.on_node == {}


def test_pods_whose_volumes_many_nodes_can_use_share_what_is_found() -> None:
    lab = disks("data-{}", pods=4)
    for number in range(4, 24):
        lab.node(f"n{number}", cpu=4000, labels={"zone": "a"})
    for index in range(4):
        bound(lab, f"data-{index}", node_terms=(term("zone", "ab"[index % 2]),))
    session = lab.session("predicates")
    selections = [session.node_selection(lab["new"], lab.pod(f"new-{index}")) for index in range(4)]
    assert selections[0] is selections[2]
    # Few nodes are looked at for each claim, whose name is in the reason.
    assert selections[1] is not selections[3]
    messages = [reason.message for one in selections if (reason := one.verdict(lab.state.node_id["n3"])[1])]
    assert messages == [
        "a volume of the pod cannot be used on n3: its node affinity is zone in a",
        "the volume pv-data-1 of claim default/data-1 cannot be used on n3: its node affinity is zone in b",
        "a volume of the pod cannot be used on n3: its node affinity is zone in a",
        "the volume pv-data-3 of claim default/data-3 cannot be used on n3: its node affinity is zone in b",
    ]


def test_the_volumes_that_fit_equal_claims_are_found_once() -> None:
    lab = disks("data-{}", pods=20)
    for index in range(20):
        claim(lab, f"data-{index}", "local")
    for index in range(50):
        volume(lab, f"disk-{index}", node_terms=on_node(f"n{1 + index % 2}"))
    session = lab.session("predicates")
    selections = {session.node_selection(lab["new"], lab.pod(f"new-{index}")) for index in range(20)}
    assert len(selections) == 1
    fitting = session.topology.volume_nodes.fitting(
        lab.state, lab.state.volumes.claims["default/data-0"], session.budget
    )
    assert [len(found) for found in fitting.local.values()] == [25, 25]
    # A volume that a claim has is none of those that are looked through.
    version = lab.state.volumes.free_version
    bound(lab, "other")
    assert lab.state.volumes.free_version == version
    lab.state.volumes.put_volume(replace(lab.state.volumes.volumes["disk-0"], phase="Released"))
    assert lab.state.volumes.free_version > version


# -- what it costs --------------------------------------------------------------------------------------


def steps_of(claims: int, volumes: int, **asked: Any) -> int:
    """Of the nodes for a pod with so many claims, each of another size, and so many local volumes."""
    names = [f"data{number}" for number in range(claims)]
    lab = disks(*names)
    for number in range(volumes):
        volume(lab, f"pv{number}", capacity=GIB * (1 + number), node_terms=on_node("n2"))
    for number, name in enumerate(names):
        more = {field: value(number) for field, value in asked.items()}
        claim(lab, name, "local", requested=GIB * (1 + number), **more)
    session = lab.session("predicates")
    session.budget = budget = CountedSteps()
    assert session.claim_rules is not None
    found = session.claim_rules.choose(lab.pod("new-0"), lab.state.node_id["n2"])
    assert isinstance(found, tuple)
    assert len(found) == claims
    return budget.all


def test_volumes_are_looked_at_once_for_claims_of_all_sizes_and_counted() -> None:
    """20 pods with 256 claims of different sizes and 1,000 volumes took 8 s in one turn."""
    one, many = steps_of(1, 200), steps_of(100, 200)
    assert one >= 4 * 200
    assert many <= one + 2 * 100
    # Where they must be looked at for each claim, that is counted.
    selectors = steps_of(100, 200, selector=lambda number: (Requirement(f"k{number}", "DoesNotExist"),))
    assert selectors >= 4 * 100 * 200


def test_the_smallest_volume_is_taken_that_is_large_enough() -> None:
    lab = disks("data")
    for number in (1, 2, 4, 8):
        volume(lab, f"pv{number}", capacity=GIB * number, node_terms=on_node("n2"))
        volume(lab, f"wide{number}", capacity=GIB * number + 1)
    rules = lab.session("predicates").claim_rules
    assert rules is not None
    for requested, here, elsewhere in (
        (GIB, "pv1", "wide1"),
        (GIB + 1, "wide1", "wide1"),
        (3 * GIB, "pv4", "wide4"),
    ):
        claim(lab, "data", "local", requested=requested)
        for node, wanted in (("n2", here), ("n1", elsewhere)):
            assert rules.choose(lab.pod("new-0"), lab.state.node_id[node]) == (
                ClaimChoice("default/data", wanted),
            )
    claim(lab, "data", "local", requested=9 * GIB)
    assert not isinstance(rules.choose(lab.pod("new-0"), lab.state.node_id["n2"]), tuple)
