"""Claims and volumes of an embedded cluster: what is bound at once, what waits, what hangs, what goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.fleets import make_fleet
from ringwise.embed.records import ObjectRefusedError
from ringwise.messages.commands import BindVolume, Command, CreatePod, DeletePod, SelectNode
from ringwise.messages.events import ClaimFailed
from ringwise.messages.job_expansion import pods_of
from ringwise.state.model import Node, NodeTerm, Pod, Requirement
from ringwise.state.vcjob import VcJob, Volume
from ringwise.state.volumes import (
    ClaimReference,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from ringwise.wellknown import LAB_PROVISIONER, ZONE
from tests.builders.values import job_of, task_of
from tests.embed.faulty import update

LOCAL = StorageClass("local", waits_for_pod=True)
FAST = StorageClass("fast", LAB_PROVISIONER, waits_for_pod=True)
NOW = StorageClass("now", LAB_PROVISIONER)
HANGS = StorageClass("hangs", "csi.nowhere.example", waits_for_pod=True)
MODES = ("ReadWriteOnce",)


def claim_of(storage_class: str = "", name: str = "data", **fields: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        "default", name, storage_class=storage_class, access_modes=MODES, requested=10, **fields
    )


def volume_of(
    name: str = "disk", storage_class: str = "", capacity: int = 10, **fields: Any
) -> PersistentVolume:
    return PersistentVolume(name, capacity, storage_class, MODES, **fields)


def cluster_of(*objects: object) -> EmbeddedCluster:
    cluster = EmbeddedCluster()
    cluster.submit_all(make_fleet(2).nodes)
    cluster.submit_all(objects)
    return cluster


def kept_claim(cluster: EmbeddedCluster, name: str = "data") -> PersistentVolumeClaim:
    found = cluster.get(PersistentVolumeClaim, f"default/{name}")
    assert found is not None
    return found


def select(cluster: EmbeddedCluster, node: str = "node-0") -> list[Any]:
    return cluster.apply(SelectNode("default", "data", kept_claim(cluster).uid, node))


def test_a_claim_without_a_class_takes_the_smallest_volume_without_one() -> None:
    volumes = [volume_of("big", capacity=30), volume_of("fits"), volume_of("small", capacity=5)]
    cluster = cluster_of(*volumes, volume_of("classed", "local"), claim_of())
    assert (kept_claim(cluster).volume, kept_claim(cluster).bound) == ("fits", True)
    bound = cluster.get(PersistentVolume, "fits")
    assert bound is not None
    assert (bound.phase, bound.claim) == (
        "Bound",
        ClaimReference("default", "data", kept_claim(cluster).uid),
    )


@pytest.mark.parametrize(
    "other",
    [
        volume_of(block=True),
        replace(volume_of(), access_modes=("ReadOnlyMany",)),
        volume_of(labels={"kind": "tape"}),
        volume_of(claim=ClaimReference("default", "other")),
        volume_of(phase="Released"),
    ],
)
def test_a_volume_that_does_not_fit_is_left_alone(other: PersistentVolume) -> None:
    wanted = claim_of(selector=(Requirement("kind", "NotIn", ("tape",)),))
    cluster = cluster_of(other, wanted)
    assert not kept_claim(cluster).bound
    cluster.submit(volume_of("later"))
    assert kept_claim(cluster).volume == "later"


def test_a_claim_that_is_being_deleted_takes_no_volume_from_the_others() -> None:
    cluster = cluster_of(claim_of(name="old", deleting=True), claim_of(), volume_of())
    assert not kept_claim(cluster, "old").bound
    assert kept_claim(cluster).volume == "disk"


def test_a_claim_that_names_its_volume_and_one_that_is_reserved_for_it() -> None:
    cluster = cluster_of(volume_of("a"), volume_of("b"), claim_of(volume="b"))
    assert (kept_claim(cluster).volume, kept_claim(cluster).bound) == ("b", True)
    kept = volume_of("kept", "local", claim=ClaimReference("default", "data"))
    assert kept_claim(cluster_of(LOCAL, kept, claim_of("local"))).volume == "kept"


def test_a_class_that_binds_at_once_makes_a_volume_when_there_is_a_provisioner() -> None:
    cluster = cluster_of(claim_of("now"))
    assert not kept_claim(cluster).bound
    cluster.submit(NOW)
    assert kept_claim(cluster).bound


def test_the_default_class_is_that_of_claims_that_name_none() -> None:
    cluster = cluster_of(replace(NOW, default=True), claim_of(takes_default_class=True))
    assert (kept_claim(cluster).storage_class, kept_claim(cluster).bound) == ("now", True)
    # Also of those that were there before it.
    cluster = cluster_of(claim_of(takes_default_class=True), replace(NOW, default=True))
    assert (kept_claim(cluster).storage_class, kept_claim(cluster).bound) == ("now", True)


def test_a_class_that_waits_makes_a_volume_for_the_selected_node() -> None:
    cluster = cluster_of(FAST, claim_of("fast"))
    assert not kept_claim(cluster).bound
    assert select(cluster) == []
    assert (kept_claim(cluster).bound, kept_claim(cluster).selected_node) == (True, "node-0")


def test_a_volume_that_waits_is_given_by_the_scheduler_alone() -> None:
    cluster = cluster_of(LOCAL, volume_of("disk", "local"), claim_of("local"))
    assert not kept_claim(cluster).bound
    assert cluster.apply(BindVolume("disk", "default", "data", kept_claim(cluster).uid)) == []
    assert (kept_claim(cluster).bound, kept_claim(cluster).volume) == (True, "disk")


def test_a_provisioner_that_runs_nowhere_makes_nothing_until_its_driver_is_there() -> None:
    cluster = cluster_of(HANGS, claim_of("hangs"))
    node = cluster.all(Node)[0]
    update(cluster, Node, node.name, lambda one: replace(one, labels={**one.labels, ZONE: "a"}))
    select(cluster, node.name)
    assert not kept_claim(cluster).bound
    cluster.submit(CsiNode("another", {}, {HANGS.provisioner: (ZONE,)}))
    assert not kept_claim(cluster).bound
    cluster.submit(CsiNode(node.name, {}, {HANGS.provisioner: (ZONE,)}))
    volume = cluster.get(PersistentVolume, kept_claim(cluster).volume)
    assert volume is not None
    assert volume.node_terms == (NodeTerm((Requirement(ZONE, "In", ("a",)),)),)


def test_what_the_scheduler_cannot_have_is_told() -> None:
    cluster = cluster_of(LOCAL, volume_of("disk", "local"), claim_of("local"))
    uid = kept_claim(cluster).uid
    wrong: list[Command] = [
        SelectNode("default", "data", "another", "node-0"),
        SelectNode("default", "gone", uid, "node-0"),
        BindVolume("gone", "default", "data", uid),
        BindVolume("disk", "default", "data", "another"),
    ]
    cluster.submit(volume_of("taken", "local", claim=ClaimReference("default", "other")))
    wrong.append(BindVolume("taken", "default", "data", uid))
    for command in wrong:
        (told,) = cluster.apply(command)
        assert isinstance(told, ClaimFailed)
    assert not kept_claim(cluster).bound


def test_with_its_claim_a_made_volume_goes_and_another_waits_for_an_administrator() -> None:
    cluster = cluster_of(NOW, volume_of(), claim_of("now"), claim_of(name="static"))
    made = kept_claim(cluster).volume
    for name in ("data", "static"):
        cluster.delete("PersistentVolumeClaim", f"default/{name}")
    assert cluster.get(PersistentVolume, made) is None
    left = cluster.get(PersistentVolume, "disk")
    assert left is not None
    assert left.phase == "Released"
    cluster.submit(claim_of(name="static"))
    assert not kept_claim(cluster, "static").bound


def test_a_claim_that_is_applied_again_keeps_its_volume() -> None:
    cluster = cluster_of(NOW, claim_of("now"))
    before = kept_claim(cluster)
    cluster.submit(replace(claim_of("now"), requested=20))
    assert kept_claim(cluster) == replace(before, requested=20)
    with pytest.raises(ObjectRefusedError, match="only resources of its spec can be changed"):
        cluster.submit(claim_of("fast"))


def test_claims_of_a_job_and_of_its_pods_come_and_go_with_them() -> None:
    template = replace(task_of("work", 2).template, ephemeral_volumes=(("scratch", claim_of("now", "")),))
    job = job_of(replace(task_of("work", 2), template=template), name="train")
    cluster = cluster_of(
        NOW, replace(job, volumes=(Volume("/out", has_claim=True, claim=claim_of("now", "")),))
    )
    (stored,) = cluster.all(VcJob)
    for pod in pods_of(stored):
        cluster.apply(CreatePod(pod, stored.key))
    names = {one.name for one in cluster.all(PersistentVolumeClaim)}
    assert names == {"train-volume-0", "train-work-0-scratch", "train-work-1-scratch"}
    first = cluster.all(Pod)[0]
    assert kept_claim(cluster, f"{first.name}-scratch").owner == first.uid
    cluster.apply(DeletePod(first.uid, first.namespace, first.name, grace=0))
    assert len(cluster.all(PersistentVolumeClaim)) == 2
    cluster.delete("VcJob", stored.key)
    assert not cluster.all(PersistentVolumeClaim)
    assert not cluster.all(PersistentVolume)
