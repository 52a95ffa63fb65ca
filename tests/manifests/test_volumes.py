"""Claims, volumes, classes and CSINodes, and the claims of pods and jobs, from manifests into values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ringwise.manifests.bundle import Bundle, read_text
from ringwise.manifests.text.limits import ACCESS_MODES, POD_CLAIMS, VOLUME_TERMS, VOLUME_VALUES
from ringwise.messages.claim_expansion import claims_of_job, with_default_class
from ringwise.messages.job_expansion import pods_of
from ringwise.state.model import NodeTerm, Requirement
from ringwise.state.volumes import (
    ClaimReference,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
)
from tests.builders.values import GIB
from tests.manifests.builders import pod, task, vcjob
from tests.manifests.volumes import (
    HOST,
    ZONE,
    claim,
    claim_spec,
    csi_driver,
    csi_node,
    storage_capacity,
    storage_class,
    volume,
    with_claims,
    with_ephemeral,
)


def bundle_of(*documents: Any) -> Bundle:
    return read_text(b"\n---\n".join(json.dumps(one).encode() for one in documents), "here")


def read(*documents: Any) -> Bundle:
    bundle = bundle_of(*documents)
    assert not bundle.errors, bundle.errors
    return bundle


def told(*documents: Any) -> str:
    return " ".join(map(str, bundle_of(*documents).errors))


def test_a_claim_says_what_it_asks_for_and_what_it_has() -> None:
    (waiting,) = read(claim("data", "fast", "20Gi", mode="ReadWriteOncePod")).of(PersistentVolumeClaim)
    assert (waiting.key, waiting.storage_class, waiting.requested) == ("default/data", "fast", 20 * GIB)
    assert waiting.for_one_pod
    assert not waiting.bound
    (bound,) = read(claim("data", "fast", bound="disk", node="node-1")).of(PersistentVolumeClaim)
    assert (bound.volume, bound.bound, bound.selected_node) == ("disk", True, "node-1")


def test_a_claim_that_names_a_volume_is_not_bound_before_the_controller_says_so() -> None:
    (found,) = read(claim("data", "", volumeName="disk")).of(PersistentVolumeClaim)
    assert (found.volume, found.bound) == ("disk", False)


@pytest.mark.parametrize(
    ("written", "annotation", "name", "default"),
    [
        (None, None, "", True),
        ("", None, "", False),
        ("fast", None, "fast", False),
        (None, "old", "old", False),
    ],
)
def test_the_class_of_a_claim(written: str | None, annotation: str | None, name: str, default: bool) -> None:
    document = claim("data", written)
    if annotation:
        document["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] = annotation
    (found,) = read(document).of(PersistentVolumeClaim)
    assert (found.storage_class, found.takes_default_class) == (name, default)
    classes = [StorageClass("plain"), StorageClass("usual", default=True)]
    assert with_default_class(found, classes).storage_class == ("usual" if default else name)


def test_a_volume_says_where_it_can_be_used_and_whose_it_is() -> None:
    (found,) = read(volume("disk", "local", "5Gi", node="node-1", claim="team/data")).of(PersistentVolume)
    assert found.node_terms == (NodeTerm((Requirement(HOST, "In", ("node-1",)),)),)
    assert found.claim == ClaimReference("team", "data")
    assert (found.capacity, found.storage_class, found.phase) == (5 * GIB, "local", "Available")
    assert not found.deleted_with_claim


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        ({"csi": {"driver": "csi.example.com", "volumeHandle": "v-1"}}, "csi.example.com", "v-1"),
        ({"cinder": {"volumeID": "c-1"}}, "cinder.csi.openstack.org", "c-1"),
        ({"gcePersistentDisk": {"pdName": "g-1"}}, "pd.csi.storage.gke.io", "g-1"),
        ({"azureDisk": {"diskURI": "/a"}}, "disk.csi.azure.com", "/a"),
        ({"nfs": {"server": "s", "path": "/"}}, "", ""),
    ],
)
def test_what_is_attached(source: dict[str, Any], driver: str, handle: str) -> None:
    (found,) = read(volume("disk", **source)).of(PersistentVolume)
    assert (found.driver, found.handle) == (driver, handle)


def test_a_class_says_when_its_claims_are_bound_and_where() -> None:
    (found,) = read(storage_class("fast", waits=True, zones=["a", "b"], default=True)).of(StorageClass)
    assert found.waits_for_pod
    assert found.default
    assert found.provisions
    assert found.allowed_topologies == (NodeTerm((Requirement(ZONE, "In", ("a", "b")),)),)
    (local,) = read(storage_class("local", "kubernetes.io/no-provisioner")).of(StorageClass)
    assert not local.provisions
    assert not local.waits_for_pod


def test_a_node_says_how_many_volumes_of_which_driver_it_attaches() -> None:
    (found,) = read(csi_node("node-1", {"a": 4, "b": None, "c": 0}, [ZONE])).of(CsiNode)
    assert found.limits == {"a": 4, "c": 0}
    assert found.topology_keys == {"a": (ZONE,), "b": (ZONE,), "c": (ZONE,)}


def test_a_driver_says_for_which_nodes_it_has_room_for_how_large_a_volume() -> None:
    (driver,) = read(csi_driver()).of(CsiDriver)
    assert driver.publishes_capacity
    (silent,) = read(csi_driver(capacity=False)).of(CsiDriver)
    assert not silent.publishes_capacity
    nowhere = storage_capacity("nowhere", "fast", "1Gi")
    del nowhere["nodeTopology"]
    found = read(
        storage_capacity("one", "fast", "4Gi", "node-1"),
        storage_capacity("largest", "fast", "4Gi", maximumVolumeSize="1Gi"),
        storage_capacity("untold", "fast", None),
        nowhere,
    ).of(StorageCapacity)
    on_host = (Requirement(HOST, "In", ("node-1",)),)
    assert {one.key: (one.nodes, one.largest) for one in found} == {
        "kube-system/one": (on_host, 4 << 30),
        "kube-system/largest": ((), 1 << 30),
        "kube-system/untold": ((), 0),
        "kube-system/nowhere": (None, 1 << 30),
    }


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            claim("data", mode="ReadWriteSometimes"),
            'spec.accessModes[0]: Invalid value: "ReadWriteSometimes": must be one of ReadWriteOnce',
        ),
        (claim("data", size="many"), "spec.resources.requests"),
        (
            claim("data", volumeMode="Tape"),
            'spec.volumeMode: Invalid value: "Tape": must be Filesystem or Block',
        ),
        (claim("data", accessModes=["ReadWriteOnce"] * (ACCESS_MODES.most + 1)), "at most 16 are allowed"),
        (claim("data", "x" * 300), "(300 characters): must be a name of at most 253"),
        (
            claim("data", selector={"matchLabels": {f"k{n}": "v" for n in range(VOLUME_VALUES.most + 1)}}),
            "spec.selector: has 8,193",
        ),
        (volume("disk", nodeAffinity={"required": {}}), "nodeSelectorTerms: must have at least one term"),
        (
            volume("disk", nodeAffinity={"required": {"nodeSelectorTerms": [{}] * (VOLUME_TERMS.most + 1)}}),
            "has 257 terms",
        ),
        (volume("disk", capacity={"storage": "-1"}), "spec.capacity"),
        (
            {**storage_class("fast"), "volumeBindingMode": "Never"},
            "must be Immediate or WaitForFirstConsumer",
        ),
        ({**storage_class("fast"), "provisioner": ""}, "provisioner: Required value"),
        (csi_node("node-1", {"a": -1}), "spec.drivers[0].allocatable.count"),
        ({**csi_driver(), "spec": {"storageCapacity": "yes"}}, "spec.storageCapacity"),
        (storage_capacity("c", "fast", "much"), ': capacity: Invalid value: "much": must be a quantity'),
        (
            storage_capacity("c", "fast", "1Gi", maximumVolumeSize="-1"),
            ': maximumVolumeSize: Invalid value: "-1": must',
        ),
        (storage_capacity("c", "x" * 300, "1Gi"), "(300 characters): must be a name of at most 253"),
        (
            storage_capacity("c", "fast", "1Gi", nodeTopology={"matchExpressions": [{"key": "a"}]}),
            "nodeTopology.matchExpressions[0].operator",
        ),
        (
            storage_capacity(
                "c",
                "fast",
                "1Gi",
                nodeTopology={"matchLabels": {f"k{n}": "v" for n in range(VOLUME_VALUES.most + 1)}},
            ),
            "nodeTopology: has 8,193",
        ),
        (pod() | {"spec": with_claims(pod()["spec"], "")}, "persistentVolumeClaim.claimName: Required value"),
        (
            pod() | {"spec": with_claims(pod()["spec"], *(f"c-{n}" for n in range(POD_CLAIMS.most + 1)))},
            "spec.volumes: has 257 volumes with claims; at most 256 are allowed",
        ),
        (
            vcjob(volumes=[{"mountPath": "/a", "volumeClaim": claim_spec(mode="x")}]),
            "volumeClaim.accessModes",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_field(document: Any, message: str) -> None:
    assert message in told(document)


def test_a_pod_uses_claims_by_name_and_claims_of_its_own() -> None:
    spec = with_ephemeral(with_claims(pod()["spec"], "data", "logs", "data"), "scratch", "fast")
    bundle = read(pod("worker") | {"spec": spec})
    (found,) = bundle.pods
    assert found.claims == ("data", "logs", "worker-scratch")
    assert found.ephemeral_claims == ("worker-scratch",)
    (made,) = bundle.of(PersistentVolumeClaim)
    assert (made.key, made.owner, made.storage_class) == ("team/worker-scratch", found.uid, "fast")


def test_a_bound_pod_with_too_many_claims_is_read_without_them() -> None:
    names = [f"c-{number}" for number in range(POD_CLAIMS.most + 1)]
    spec = {**with_claims(pod()["spec"], *names), "nodeName": "node-0"}
    (found,) = read(pod() | {"spec": spec}).pods
    assert (found.node, found.claims) == ("node-0", ())


def test_many_volumes_that_are_no_claims_are_fine() -> None:
    volumes = [{"name": f"v-{number}", "emptyDir": {}} for number in range(POD_CLAIMS.most + 10)]
    (found,) = read(pod() | {"spec": {**pod()["spec"], "volumes": volumes}}).pods
    assert found.claims == ()


def test_pods_of_a_job_use_the_claims_of_the_job_and_of_its_template() -> None:
    work = task(replicas=2)
    work["template"]["spec"] = with_ephemeral(
        with_claims(work["template"]["spec"], "data"), "scratch", "fast"
    )
    volumes = [
        {"mountPath": "/in", "volumeClaimName": "input"},
        {"mountPath": "/out", "volumeClaim": claim_spec("slow", "1Ti", "ReadWriteMany")},
    ]
    (job,) = read(vcjob(tasks=[work], volumes=volumes)).vcjobs
    first, _ = pods_of(job)
    own = f"{first.name}-scratch"
    assert first.claims == ("data", "input", f"{job.name}-volume-1", own)
    assert first.ephemeral_claims == (own,)
    (made,) = claims_of_job(job)
    assert (made.key, made.storage_class, made.requested) == (
        f"{job.namespace}/{job.name}-volume-1",
        "slow",
        2**40,
    )


def test_the_claims_of_a_stateful_set_are_those_in_the_input_or_new() -> None:
    template = {"metadata": {"name": "data"}, "spec": claim_spec("fast")}
    stateful = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "team"},
        "spec": {"replicas": 2, "volumeClaimTemplates": [template], "template": {"spec": pod()["spec"]}},
    }
    bundle = read(claim("data-db-0", "slow", namespace="team"), stateful)
    assert [one.claims for one in bundle.pods] == [("data-db-0",), ("data-db-1",)]
    classes = {one.key: one.storage_class for one in bundle.of(PersistentVolumeClaim)}
    assert classes == {"team/data-db-0": "slow", "team/data-db-1": "fast"}
