"""Claims of persistent volumes, the volumes, their classes, and what nodes can attach; the claims of pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from ringwise.manifests.objects.affinity import label_selector, node_term
from ringwise.manifests.objects.metadata import identity, reference
from ringwise.manifests.objects.resources import amount
from ringwise.manifests.text.checking import check_word, keyed
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.limits import (
    ACCESS_MODES,
    DRIVERS,
    NAME,
    POD_CLAIMS,
    VOLUME_TERMS,
    VOLUME_VALUES,
    check,
    pod_claims,
)
from ringwise.manifests.text.quantities import quantity
from ringwise.manifests.text.strings import shared
from ringwise.manifests.text.wire import (
    ClaimReferenceWire,
    ClaimSpecWire,
    ClaimTemplateWire,
    ClaimWire,
    CsiDriverSpecWire,
    CsiDriverWire,
    CsiNodeSpecWire,
    CsiNodeWire,
    ExpressionWire,
    LabelSelectorWire,
    MetaWire,
    NodeSelectorTermWire,
    PersistentVolumeSpecWire,
    PersistentVolumeWire,
    PhaseStatusWire,
    PodSpecWire,
    PodVolumeWire,
    Quantities,
    ResourcesWire,
    StorageCapacityWire,
    StorageClassWire,
    Texts,
)
from ringwise.state.model import NodeTerm, Requirement
from ringwise.state.volumes import (
    NO_PROVISIONER,
    ClaimReference,
    ClaimTemplates,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    ephemeral_claim,
)
from ringwise.wellknown import BIND_COMPLETED, DEFAULT_STORAGE_CLASS, PODS, SELECTED_NODE, STORAGE_CLASS

_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_FILESYSTEM, _BLOCK = "Filesystem", "Block"
_IMMEDIATE, _WAITS = "Immediate", "WaitForFirstConsumer"
_STORAGE = "storage"
_DELETE = "Delete"


def claim_from_wire(wire: ClaimWire, issues: Findings) -> PersistentVolumeClaim:
    who = identity(wire.metadata, "PersistentVolumeClaim", issues)
    spec = wire.spec or ClaimSpecWire()
    annotations = _annotations(wire.metadata)
    volume = reference(spec.volume_name, "spec.volumeName", issues)
    owner = who.owner
    return replace(
        _claim(spec, annotations, "spec", issues),
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        volume=volume,
        bound=bool(volume) and BIND_COMPLETED in annotations,
        phase=shared((wire.status or PhaseStatusWire()).phase or "Pending"),
        selected_node=reference(
            annotations.get(SELECTED_NODE), keyed("metadata.annotations", SELECTED_NODE), issues
        ),
        deleting=who.deleting,
        owner=owner.uid if owner is not None and owner.kind == PODS.kind else "",
        origin=issues.origin,
    )


def claim_template(wire: ClaimTemplateWire | None, path: str, issues: Findings) -> PersistentVolumeClaim:
    """A claim without namespace and name: each pod gets one."""
    wire = wire or ClaimTemplateWire()
    return _claim(wire.spec or ClaimSpecWire(), _annotations(wire.metadata), f"{path}.spec", issues)


def claim_of_spec(spec: ClaimSpecWire, path: str, issues: Findings) -> PersistentVolumeClaim:
    """The same for a spec alone: the job gets one."""
    return _claim(spec, {}, path, issues)


def _claim(spec: ClaimSpecWire, annotations: Texts, path: str, issues: Findings) -> PersistentVolumeClaim:
    named = annotations.get(STORAGE_CLASS) or spec.storage_class_name
    requests = (spec.resources or ResourcesWire()).requests
    return PersistentVolumeClaim(
        "",
        "",
        storage_class=reference(named, f"{path}.storageClassName", issues),
        access_modes=_access_modes(spec.access_modes, f"{path}.accessModes", issues),
        requested=_size(requests, f"{path}.resources.requests", issues),
        selector=_selector(spec.selector, f"{path}.selector", issues),
        block=_is_block(spec.volume_mode, f"{path}.volumeMode", issues),
        takes_default_class=named is None,
    )


def volume_from_wire(wire: PersistentVolumeWire, issues: Findings) -> PersistentVolume:
    who = identity(wire.metadata, "PersistentVolume", issues, namespaced=False)
    spec = wire.spec or PersistentVolumeSpecWire()
    named = _annotations(wire.metadata).get(STORAGE_CLASS) or spec.storage_class_name
    driver, handle = _attached(spec)
    return PersistentVolume(
        who.name,
        capacity=_size(spec.capacity, "spec.capacity", issues),
        storage_class=reference(named, "spec.storageClassName", issues),
        access_modes=_access_modes(spec.access_modes, "spec.accessModes", issues),
        node_terms=_node_terms(spec, issues),
        labels=who.labels,
        claim=_claim_reference(spec.claim_ref, issues),
        phase=shared((wire.status or PhaseStatusWire()).phase or "Available"),
        block=_is_block(spec.volume_mode, "spec.volumeMode", issues),
        driver=driver,
        handle=handle,
        deleted_with_claim=spec.persistent_volume_reclaim_policy == _DELETE,
        deleting=who.deleting,
        origin=issues.origin,
    )


def _claim_reference(wire: ClaimReferenceWire | None, issues: Findings) -> ClaimReference | None:
    if wire is None:
        return None
    return ClaimReference(
        reference(wire.namespace, "spec.claimRef.namespace", issues),
        reference(wire.name, "spec.claimRef.name", issues),
        wire.uid or "",
    )


def _node_terms(spec: PersistentVolumeSpecWire, issues: Findings) -> tuple[NodeTerm, ...]:
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    if required is None:
        return ()
    path = "spec.nodeAffinity.required.nodeSelectorTerms"
    terms = required.node_selector_terms or ()
    if not terms:
        issues.add_error(path, "must have at least one term")
    return _terms(terms, path, issues)


def _terms(wires: Sequence[NodeSelectorTermWire], path: str, issues: Findings) -> tuple[NodeTerm, ...]:
    """No terms where there are too many, or too many values in them."""
    parts = (part for wire in wires for part in (wire.match_expressions, wire.match_fields))
    sizes = sum(1 + len(one.values or ()) for part in parts for one in part or ())
    if not check(VOLUME_TERMS, wires, path, issues) or not check(VOLUME_VALUES, sizes, path, issues):
        return ()
    return tuple(node_term(wire, f"{path}[{position}]", issues) for position, wire in enumerate(wires))


def _attached(spec: PersistentVolumeSpecWire) -> tuple[str, str]:
    """CSI driver and name of what is attached to the node of a pod; of older kinds, as CSI calls them."""
    if spec.csi is not None:
        return shared(spec.csi.driver or ""), spec.csi.volume_handle or ""
    disks = (
        (spec.aws_elastic_block_store, "ebs.csi.aws.com"),
        (spec.azure_disk, "disk.csi.azure.com"),
        (spec.cinder, "cinder.csi.openstack.org"),
        (spec.gce_persistent_disk, "pd.csi.storage.gke.io"),
        (spec.vsphere_volume, "csi.vsphere.vmware.com"),
    )
    for disk, driver in disks:
        if disk is not None:
            return driver, disk.volume_id or disk.pd_name or disk.disk_uri or disk.volume_path or ""
    return "", ""


def storage_class_from_wire(wire: StorageClassWire, issues: Findings) -> StorageClass:
    who = identity(wire.metadata, "StorageClass", issues, namespaced=False)
    mode = wire.volume_binding_mode or _IMMEDIATE
    if mode not in (_IMMEDIATE, _WAITS):
        issues.invalid("volumeBindingMode", mode, f"must be {_IMMEDIATE} or {_WAITS}")
    if not wire.provisioner:
        issues.add_error("provisioner", "Required value")
    # A term without expressions selects nothing.
    topologies = [
        NodeSelectorTermWire(
            [ExpressionWire(one.key, "In", one.values) for one in term.match_label_expressions or ()]
        )
        for term in wire.allowed_topologies or ()
    ]
    return StorageClass(
        who.name,
        provisioner=reference(wire.provisioner, "provisioner", issues, NO_PROVISIONER),
        waits_for_pod=mode == _WAITS,
        allowed_topologies=_terms(topologies, "allowedTopologies", issues),
        default=_annotations(wire.metadata).get(DEFAULT_STORAGE_CLASS) == "true",
        origin=issues.origin,
    )


def csi_node_from_wire(wire: CsiNodeWire, issues: Findings) -> CsiNode:
    who = identity(wire.metadata, "CSINode", issues, namespaced=False)
    drivers = (wire.spec or CsiNodeSpecWire()).drivers or ()
    if not check(DRIVERS, sum(1 + len(one.topology_keys or ()) for one in drivers), "spec.drivers", issues):
        drivers = ()
    limits: dict[str, int] = {}
    for position, driver in enumerate(drivers):
        count = driver.allocatable.count if driver.allocatable is not None else None
        if count is not None:
            path = f"spec.drivers[{position}].allocatable.count"
            limits[shared(driver.name)] = issues.count(path, count, 0)
    return CsiNode(
        who.name,
        limits,
        {shared(one.name): tuple(map(shared, one.topology_keys or ())) for one in drivers},
        issues.origin,
    )


def csi_driver_from_wire(wire: CsiDriverWire, issues: Findings) -> CsiDriver:
    who = identity(wire.metadata, "CSIDriver", issues, namespaced=False)
    publishes = (wire.spec or CsiDriverSpecWire()).storage_capacity or False
    return CsiDriver(who.name, publishes, issues.origin)


def storage_capacity_from_wire(wire: StorageCapacityWire, issues: Findings) -> StorageCapacity:
    who = identity(wire.metadata, "CSIStorageCapacity", issues)
    # The largest volume, where the driver tells it, may be smaller than all that is free.
    sizes = (("maximumVolumeSize", wire.maximum_volume_size), ("capacity", wire.capacity))
    given = ((path, value) for path, value in sizes if value is not None)
    largest = next((issues.parsed(path, value, quantity, 0) for path, value in given), 0)
    return StorageCapacity(
        who.namespace,
        who.name,
        storage_class=reference(wire.storage_class_name, "storageClassName", issues),
        nodes=_selector(wire.node_topology, "nodeTopology", issues),
        largest=largest,
        origin=issues.origin,
    )


# -- of pods


def named_claims(spec: PodSpecWire, path: str, issues: Findings) -> tuple[str, ...]:
    """The claims that the volumes of a pod name."""
    names: dict[str, None] = {}
    for position, volume in _volumes(spec):
        source = volume.persistent_volume_claim
        if source is None:
            continue
        if source.claim_name:
            # Longer than any name: kept so that the pod waits for what cannot be there.
            names[shared(source.claim_name[: NAME.most + 1])] = None
        elif not spec.node_name:
            issues.add_error(f"{path}.volumes[{position}].persistentVolumeClaim.claimName", "Required value")
    return tuple(names)


def ephemeral_claims(spec: PodSpecWire, pod: str) -> tuple[str, ...]:
    """The claims that are made for the generic ephemeral volumes of a pod of this name."""
    return tuple(
        ephemeral_claim(pod, volume.name) for _, volume in _volumes(spec) if volume.ephemeral is not None
    )


def ephemeral_volumes(spec: PodSpecWire, path: str, issues: Findings) -> ClaimTemplates:
    """The generic ephemeral volumes of a pod."""
    return tuple(
        (
            shared(volume.name),
            claim_template(
                volume.ephemeral.volume_claim_template,
                f"{path}.volumes[{position}].ephemeral.volumeClaimTemplate",
                issues,
            ),
        )
        for position, volume in _volumes(spec)
        if volume.ephemeral is not None
    )


def _volumes(spec: PodSpecWire) -> Iterable[tuple[int, PodVolumeWire]]:
    # Too many are reported with what else is too large.
    return () if pod_claims(spec) > POD_CLAIMS.most else enumerate(spec.volumes or ())


# -- parts


def _annotations(meta: MetaWire | None) -> Texts:
    return (meta.annotations if meta is not None else None) or {}


def _access_modes(modes: Sequence[str] | None, path: str, issues: Findings) -> tuple[str, ...]:
    if not check(ACCESS_MODES, modes or (), path, issues):
        return ()
    for position, mode in enumerate(modes or ()):
        check_word(f"{path}[{position}]", mode, _MODES, issues)
    # Most objects have the same few.
    return _interned(tuple(modes or ()))


@lru_cache(256)
def _interned(modes: tuple[str, ...]) -> tuple[str, ...]:
    return modes


def _size(amounts: Quantities | None, path: str, issues: Findings) -> int:
    value = (amounts or {}).get(_STORAGE)
    return 0 if value is None else amount(_STORAGE, value, path, issues)


def _selector(wire: LabelSelectorWire | None, path: str, issues: Findings) -> tuple[Requirement, ...] | None:
    if wire is None:
        return None
    expressions = wire.match_expressions or ()
    sizes = len(wire.match_labels or ()) + sum(1 + len(one.values or ()) for one in expressions)
    return label_selector(wire, path, issues) if check(VOLUME_VALUES, sizes, path, issues) else ()


def _is_block(mode: str | None, path: str, issues: Findings) -> bool:
    if mode and mode not in (_FILESYSTEM, _BLOCK):
        issues.invalid(path, mode, f"must be {_FILESYSTEM} or {_BLOCK}")
    return mode == _BLOCK
