"""What of a manifest has no effect or another one than its author may expect, and names that the API server
would refuse: unknown fields, arguments of job plugins that are ignored, tasks without `replicas`, network
topologies that cannot be read.

Only objects without a uid are looked at: a person wrote them. The API server drops unknown fields of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ringwise.manifests.text import wire
from ringwise.manifests.text.checking import keyed
from ringwise.manifests.text.errors import shown
from ringwise.manifests.text.limits import PLUGINS
from ringwise.state.job_plugins import ignored_arguments
from ringwise.state.topology_annotations import KEYS as TOPOLOGY_KEYS
from ringwise.state.topology_annotations import annotation_problems
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import KUBERNETES_JOB_API

#: A name as RFC 1123 has it.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TEMPLATE_PATH = "spec.template"
_OBJECT = ("apiVersion", "kind", "metadata", "spec", "status")
_CONTAINER = (
    "args command image imagePullPolicy lifecycle livenessProbe readinessProbe resizePolicy "
    "restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath "
    "terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
)
#: Field, or field and field in it -> the struct that it has, or a list or map of; and the fields that
#: Kubernetes and Volcano know there besides, which nothing here reads.
_INSIDE: Mapping[str, tuple[type[wire.WireStruct], str]] = {
    "metadata": (wire.MetaWire, "finalizers generation deletionGracePeriodSeconds managedFields selfLink"),
    "tasks": (wire.TaskWire, ""),
    "policies": (wire.PolicyWire, ""),
    "partitionPolicy": (wire.PartitionPolicyWire, ""),
    "networkTopology": (wire.NetworkTopologyWire, ""),
    "subGroupPolicy": (wire.SubGroupPolicyWire, ""),
    "members": (wire.HyperNodeMemberWire, ""),
    "members.selector": (wire.MemberSelectorWire, ""),
    "exactMatch": (wire.NameMatchWire, ""),
    "regexMatch": (wire.PatternMatchWire, ""),
    "labelMatch": (wire.LabelSelectorWire, ""),
    "template": (wire.TemplateWire, ""),
    "template.spec": (
        wire.PodSpecWire,
        "activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks "
        "hostAliases hostIPC hostPID hostUsers hostnameOverride imagePullSecrets os readinessGates "
        "restartPolicy runtimeClassName securityContext serviceAccount serviceAccountName setHostnameAsFQDN "
        "shareProcessNamespace workloadRef",
    ),
    "containers": (wire.ContainerWire, _CONTAINER),
    "initContainers": (wire.ContainerWire, _CONTAINER),
    "resources": (wire.ResourcesWire, "claims"),
    "runPolicy": (
        wire.RunPolicyWire,
        "cleanPodPolicy ttlSecondsAfterFinished activeDeadlineSeconds backoffLimit managedBy",
    ),
    "schedulingPolicy": (wire.SchedulingPolicyWire, "scheduleTimeoutSeconds"),
}
#: Of the maps of roles of operators' jobs.
_ROLE = (wire.RoleWire, "restartPolicy")


def _known(struct: type[wire.WireStruct], others: str) -> tuple[str, ...]:
    return (*struct.__struct_encode_fields__, *others.split())


#: The fields of the specs of kinds that share a struct.
_FIELDS = {
    "Deployment": (
        "replicas selector template strategy minReadySeconds revisionHistoryLimit paused "
        "progressDeadlineSeconds"
    ),
    "ReplicaSet": "replicas selector template minReadySeconds",
    "ReplicationController": "replicas selector template minReadySeconds",
    "StatefulSet": (
        "replicas selector template serviceName podManagementPolicy updateStrategy revisionHistoryLimit "
        "minReadySeconds volumeClaimTemplates ordinals persistentVolumeClaimRetentionPolicy"
    ),
    "Kubernetes Job": (
        "parallelism completions activeDeadlineSeconds backoffLimit selector manualSelector template "
        "ttlSecondsAfterFinished completionMode suspend podFailurePolicy successPolicy "
        "backoffLimitPerIndex maxFailedIndexes podReplacementPolicy managedBy"
    ),
    "AscendJob": "schedulerName runPolicy successPolicy replicaSpecs",
    "PyTorchJob": "runPolicy pytorchReplicaSpecs elasticPolicy nprocPerNode",
    "TFJob": "runPolicy tfReplicaSpecs successPolicy enableDynamicWorker",
    "MPIJob": (
        "runPolicy mpiReplicaSpecs slotsPerWorker cleanPodPolicy mainContainer sshAuthMountPath "
        "launcherCreationPolicy mpiImplementation runLauncherAsWorker"
    ),
    "PaddleJob": "runPolicy paddleReplicaSpecs elasticPolicy",
    "XGBoostJob": "runPolicy xgbReplicaSpecs",
    "JAXJob": "runPolicy jaxReplicaSpecs",
}
_SPECS: Mapping[str, tuple[str, ...]] = {
    "Job": _known(wire.JobSpecWire, ""),
    "PodGroup": _known(wire.PodGroupSpecWire, ""),
    "HyperNode": _known(wire.HyperNodeSpecWire, ""),
    "Queue": _known(wire.QueueSpecWire, "extendClusters type dequeueStrategy"),
    "Pod": _known(*_INSIDE["template.spec"]),
    **{kind: tuple(fields.split()) for kind, fields in _FIELDS.items()},
}


def manifest_notes(origin: str, kind: str, document: Mapping[str, Any]) -> Iterator[str]:
    """One line for each unknown field, with the nearest known one, for a name that is none, and so on.

    The lines begin with the origin, where it is given.
    """
    origin = f"{origin}: " if origin else ""
    meta = _map(document.get("metadata"))
    if kind not in _SPECS or meta.get("uid"):
        return
    name = meta.get("name")
    if isinstance(name, str) and name and not _NAME.fullmatch(name):
        valid = re.sub(r"[^-a-z0-9.]+", "-", name.lower()).strip("-.")
        hint = f'; for example "{valid[:60]}"' if valid else ""
        yield (
            f"{origin}metadata.name: the API server refuses {shown(name)}: lower-case letters, digits, '-' "
            f"and '.' are allowed{hint}"
        )
    for path, key, allowed in _unknown(kind, document):
        where = f"{path}.{key}" if path else key
        yield f"{origin}{where[:200]}: unknown field, not read{did_you_mean(key, allowed)}"
    for note in _of_topology_annotations(kind, document):
        yield f"{origin}{note}"
    if _is_vcjob(kind, document):
        for note in _of_vcjob(_map(document.get("spec"))):
            yield f"{origin}{note}"


def _is_vcjob(kind: str, document: Mapping[str, Any]) -> bool:
    return kind == "Job" and document.get("apiVersion") != KUBERNETES_JOB_API


def _of_topology_annotations(kind: str, document: Mapping[str, Any]) -> Iterator[str]:
    """Of pods whose PodGroup the controller makes they count; elsewhere they would count for nothing."""
    spec = _map(document.get("spec"))
    counts = f"{_TEMPLATE_PATH}.metadata.annotations"
    if kind == "Pod":
        yield from _annotation_problems(document, "metadata.annotations")
    elif kind == "PodGroup" or _is_vcjob(kind, document):
        yield from _without_effect(document, "metadata.annotations", "spec.networkTopology")
        for place, task in _items(spec, "tasks", "spec"):
            path = f"{place}.template.metadata.annotations"
            yield from _without_effect(_map(task).get("template"), path, "spec.networkTopology")
    elif "template" in _SPECS[kind]:
        yield from _without_effect(document, "metadata.annotations", counts)
        yield from _annotation_problems(spec.get("template"), counts)


def _annotation_problems(value: object, path: str) -> Iterator[str]:
    for key, problem in annotation_problems(_annotations(value)):
        yield f"{keyed(path, key)}: {problem}"


def _without_effect(value: object, path: str, instead: str) -> Iterator[str]:
    annotations = _annotations(value)
    for key in TOPOLOGY_KEYS:
        if key in annotations:
            yield f"{keyed(path, key)}: has no effect here: write it to {instead}"


def _annotations(value: object) -> Mapping[str, str]:
    texts = _map(_map(_map(value).get("metadata")).get("annotations"))
    return {key: text for key, text in texts.items() if key in TOPOLOGY_KEYS and isinstance(text, str)}


def _of_vcjob(spec: Mapping[Any, Any]) -> Iterator[str]:
    for place, task in _items(spec, "tasks", "spec"):
        if isinstance(task, dict) and task.get("replicas") is None:
            yield f"{place}.replicas: it is missing, which means 0: the task gets no pods"
    plugins = {
        name: [one for one in arguments if isinstance(one, str)]
        for name, arguments in _map(spec.get("plugins")).items()
        if isinstance(arguments, list)
    }
    if sum(1 + len(arguments) for arguments in plugins.values()) > PLUGINS.most:
        # The job is refused for that.
        return
    for ignored in ignored_arguments(plugins):
        yield f"spec.plugins: {ignored}"


def _unknown(kind: str, document: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Path, key and the allowed keys of each unknown field."""
    if kind == "Job" and document.get("apiVersion") == KUBERNETES_JOB_API:
        kind = "Kubernetes Job"
    for key in document:
        if key not in _OBJECT:
            yield "", key, _OBJECT
    yield from _of("", document.get("metadata"), "metadata", _known(*_INSIDE["metadata"]))
    yield from _of("", document.get("spec"), "spec", _SPECS[kind])


def _of(
    field: str, value: object, path: str, allowed: tuple[str, ...]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The unknown fields of a struct, and then those of the structs in it."""
    fields = _map(value)
    for key in fields:
        if isinstance(key, str) and key not in allowed:
            yield path, key, allowed
    for key in allowed:
        if key not in fields:
            continue
        roles = key.lower().endswith("replicaspecs")
        inner = _ROLE if roles else _INSIDE.get(f"{field}.{key}") or _INSIDE.get(key)
        within, place = fields.get(key), f"{path}.{key}"
        if inner is None:
            continue
        if isinstance(within, list):
            parts = {f"{place}[{position}]": item for position, item in enumerate(within)}
        else:
            parts = (
                {f"{place}.{name}": role for name, role in _map(within).items()} if roles else {place: within}
            )
        for where, part in parts.items():
            yield from _of(key, part, where, _known(*inner))


def _items(value: object, key: str, path: str) -> Iterator[tuple[str, object]]:
    items = _map(value).get(key)
    for position, item in enumerate(items if isinstance(items, list) else ()):
        yield f"{path}.{key}[{position}]", item


def _map(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}
