"""What of a manifest has no effect or another one than its author may expect, and names that the API server
would refuse: unknown fields, arguments of job plugins that are ignored, tasks without `replicas`, network
topologies that cannot be read.

Only objects without a uid are looked at: a person wrote them. The API server drops unknown fields of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

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
_TEMPLATE = ("metadata", "spec")
_TEMPLATE_PATH = "spec.template"
_META = (
    *("name", "generateName", "namespace", "labels", "annotations", "ownerReferences", "finalizers", "uid"),
    *(
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ),
    *("managedFields", "selfLink"),
)
_POLICY = ("action", "event", "events", "exitCode", "timeout")
#: Struct -> fields that Kubernetes and Volcano know, also those that scheduling does not need.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "object": ("apiVersion", "kind", "metadata", "spec", "status"),
    "metadata": _META,
    "Job": (
        *("schedulerName", "minAvailable", "minSuccess", "volumes", "tasks", "policies", "plugins", "queue"),
        *("maxRetry", "ttlSecondsAfterFinished", "priorityClassName", "runningEstimate", "networkTopology"),
    ),
    "task": (
        *("name", "replicas", "minAvailable", "template", "policies", "topologyPolicy", "maxRetry"),
        *("dependsOn", "partitionPolicy"),
    ),
    "policy": _POLICY,
    "template": _TEMPLATE,
    "PodGroup": (
        *("minMember", "minTaskMember", "queue", "priorityClassName", "minResources", "networkTopology"),
        "subGroupPolicy",
    ),
    "networkTopology": ("mode", "highestTierAllowed", "highestTierName"),
    "partitionPolicy": ("totalPartitions", "partitionSize", "minPartitions", "networkTopology"),
    "subGroupPolicy": (
        *("name", "labelSelector", "matchLabelKeys", "subGroupSize", "minSubGroups", "networkTopology"),
    ),
    "HyperNode": ("tier", "tierName", "members"),
    "member": ("type", "selector"),
    "selector": ("exactMatch", "regexMatch", "labelMatch"),
    "exactMatch": ("name",),
    "regexMatch": ("pattern",),
    "labelMatch": ("matchLabels", "matchExpressions"),
    "Queue": (
        *("weight", "capability", "reclaimable", "extendClusters", "guarantee", "affinity", "type", "parent"),
        *("deserved", "priority", "dequeueStrategy"),
    ),
    "Pod": (
        *("activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig"),
        *("dnsPolicy", "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork"),
        *("hostPID", "hostUsers", "hostname", "hostnameOverride", "imagePullSecrets", "initContainers"),
        *("nodeName", "nodeSelector", "os", "overhead", "preemptionPolicy", "priority", "priorityClassName"),
        *("readinessGates", "resourceClaims", "resources", "restartPolicy", "runtimeClassName"),
        *("schedulerName", "schedulingGates", "securityContext", "serviceAccount", "serviceAccountName"),
        *("setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds"),
        *("tolerations", "topologySpreadConstraints", "volumes", "workloadRef"),
    ),
    "container": (
        *("args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe"),
        *("name", "ports", "readinessProbe", "resizePolicy", "resources", "restartPolicy"),
        *(
            "restartPolicyRules",
            "securityContext",
            "startupProbe",
            "stdin",
            "stdinOnce",
            "terminationMessagePath",
        ),
        *("terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts", "workingDir"),
    ),
    "resources": ("limits", "requests", "claims"),
    "Deployment": (
        *("replicas", "selector", "template", "strategy", "minReadySeconds", "revisionHistoryLimit"),
        *("paused", "progressDeadlineSeconds"),
    ),
    "ReplicaSet": ("replicas", "selector", "template", "minReadySeconds"),
    "ReplicationController": ("replicas", "selector", "template", "minReadySeconds"),
    "StatefulSet": (
        *("replicas", "selector", "template", "serviceName", "podManagementPolicy", "updateStrategy"),
        *("revisionHistoryLimit", "minReadySeconds", "volumeClaimTemplates", "ordinals"),
        "persistentVolumeClaimRetentionPolicy",
    ),
    "Kubernetes Job": (
        *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "selector"),
        *("manualSelector", "template", "ttlSecondsAfterFinished", "completionMode", "suspend"),
        *("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes"),
        *("podReplacementPolicy", "managedBy"),
    ),
    "AscendJob": ("schedulerName", "runPolicy", "successPolicy", "replicaSpecs"),
    "PyTorchJob": ("runPolicy", "pytorchReplicaSpecs", "elasticPolicy", "nprocPerNode"),
    "TFJob": ("runPolicy", "tfReplicaSpecs", "successPolicy", "enableDynamicWorker"),
    "MPIJob": (
        *("runPolicy", "mpiReplicaSpecs", "slotsPerWorker", "cleanPodPolicy", "mainContainer"),
        *("sshAuthMountPath", "launcherCreationPolicy", "mpiImplementation", "runLauncherAsWorker"),
    ),
    "PaddleJob": ("runPolicy", "paddleReplicaSpecs", "elasticPolicy"),
    "XGBoostJob": ("runPolicy", "xgbReplicaSpecs"),
    "JAXJob": ("runPolicy", "jaxReplicaSpecs"),
    "runPolicy": (
        *("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"),
        *("schedulingPolicy", "suspend", "managedBy"),
    ),
    "schedulingPolicy": ("minAvailable", "queue", "minResources", "priorityClass", "scheduleTimeoutSeconds"),
    "role": ("replicas", "template", "restartPolicy"),
}
#: Field, or struct and field -> the struct that it has, or a list of.
_INSIDE: Mapping[str, str] = {
    **{name: name for name in _FIELDS if name[0].islower() and name not in ("object", "selector")},
    "template.spec": "Pod",
    "member.selector": "selector",
    "containers": "container",
    "initContainers": "container",
    "members": "member",
    "policies": "policy",
    "tasks": "task",
    **{
        field: "role"
        for fields in _FIELDS.values()
        for field in fields
        if field.lower().endswith("replicaspecs")
    },
}
#: Those of them that are the spec of a kind.
_SPECS = frozenset(name for name in _FIELDS if name[0].isupper())


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
    elif "template" in _FIELDS[kind]:
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
    if kind == "Job" and document.get("apiVersion") == KUBERNETES_JOB_API:
        kind = "Kubernetes Job"
    yield from _of("object", document, "")
    yield from _of(kind, document.get("spec"), "spec")


def _of(struct: str, value: object, path: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The unknown fields of a struct, and then those of the structs in it."""
    allowed, fields = _FIELDS[struct], _map(value)
    for key in fields:
        if isinstance(key, str) and key not in allowed:
            yield path, key, allowed
    for key in allowed:
        inner = _INSIDE.get(f"{struct}.{key}") or _INSIDE.get(key)
        for place, one in _parts(fields.get(key), f"{path}.{key}" if path else key, inner):
            yield from _of(inner or "", one, place)


def _parts(value: object, path: str, struct: str | None) -> Iterator[tuple[str, object]]:
    """One struct, those of a list, or the roles of an operator's job by their names."""
    if struct is None:
        return
    if isinstance(value, list):
        yield from ((f"{path}[{position}]", item) for position, item in enumerate(value))
    elif struct == "role":
        yield from ((f"{path}.{name}", role) for name, role in _map(value).items())
    else:
        yield path, value


def _items(value: object, key: str, path: str) -> Iterator[tuple[str, object]]:
    items = _map(value).get(key)
    for position, item in enumerate(items if isinstance(items, list) else ()):
        yield f"{path}.{key}[{position}]", item


def _map(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}
