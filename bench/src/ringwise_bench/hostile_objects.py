"""Objects that somebody made large: each is what one namespace may create, and no real job looks like it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ringwise.manifests.text import limits
from ringwise.records import dataclass
from ringwise.wellknown import (
    ASCEND910,
    DEPLOYMENT_API,
    FAULT_SCHEDULING,
    FAULT_TYPE,
    GROUP_NAME,
    HOSTNAME,
    VOLCANO_SCHEDULER,
)
from ringwise_bench.object_feed import CREATED, Plain

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAMESPACE = "hostile"


@dataclass(frozen=True, slots=True)
class HostileObject:
    """One of them: a name for the report, and its objects, for names that were never used before."""

    name: str
    make: Callable[[str, Sequence[str]], list[tuple[str, Plain]]]
    #: All its pods must get a node, because they ask for nothing that is impossible.
    is_placed: bool = False


def _group(name: str, pods: int = 1) -> tuple[str, Plain]:
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"group-{name}", "creationTimestamp": CREATED}
    return "PodGroup", {"metadata": meta, "spec": {"minMember": pods}, "status": {"phase": "Inqueue"}}


def _pod(name: str, group: str, affinity: Plain, chips: int = 1, **more: object) -> tuple[str, Plain]:
    meta = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"pod-{name}",
        "creationTimestamp": CREATED,
        "annotations": {GROUP_NAME: group},
    }
    asked = {"limits": {ASCEND910: chips}} if chips else {"requests": {"cpu": "1"}}
    spec = {
        "schedulerName": VOLCANO_SCHEDULER,
        "containers": [{"name": "main", "resources": asked}],
        "affinity": affinity,
        **more,
    }
    return "Pod", {"metadata": meta, "spec": spec}


def _lone(name: str, affinity: Plain) -> list[tuple[str, Plain]]:
    return [_group(name), _pod(f"{name}-0", name, affinity)]


def _expression(operator: str, *values: str, key: str = HOSTNAME) -> Plain:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _required_terms(name: str, _nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    terms = [_expression("In", f"nowhere-{number}") for number in range(14_000)]
    return _lone(name, {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}})


def _preferred_terms(name: str, _nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    terms = [
        {"weight": 1, "preference": _expression("NotIn", f"nowhere-{number}")} for number in range(14_000)
    ]
    return _lone(name, {"nodeAffinity": {_PREFERRED: terms}})


def _values(name: str, _nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    term = _expression("In", *(f"n{number}" for number in range(150_000)))
    return _lone(name, {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}}})


def _repulsive(name: str, nodes: Sequence[str], terms: int = 3_000) -> list[tuple[str, Plain]]:
    """A running pod with an anti-affinity to pods of every namespace."""
    wanted = [
        {
            "topologyKey": HOSTNAME,
            "labelSelector": _expression("NotIn", f"{number}", key="owner"),
            "namespaceSelector": {},
        }
        for number in range(terms)
    ]
    affinity = {"podAntiAffinity": {_REQUIRED: wanted}}
    kind, pod = _pod(f"{name}-0", name, affinity, nodeName=nodes[0])
    pod["metadata"]["annotations"][ASCEND910] = "Ascend910-0"
    return [_group(name), (kind, {**pod, "status": {"phase": "Running"}})]


def _pinned(
    name: str, nodes: Sequence[str], pods: int, by_label: bool, minimum: int | None = None
) -> list[tuple[str, Plain]]:
    """A gang each pod of which names its node, as those of a DaemonSet do."""
    objects = [_group(name, pods if minimum is None else minimum)]
    for number, node in zip(range(pods), nodes, strict=False):
        objects.append(_pod(f"{name}-{number}", name, names_node(node, by_label), chips=0))
    return objects


def names_node(node: str, by_label: bool = True) -> Plain:
    """The affinity of a pod that can run on one node only."""
    term = (
        _expression("In", node)
        if by_label
        else {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    )
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}}}


def _chain(name: str, _nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    template = {"spec": {"containers": [{"name": "main"}]}}
    tasks = [
        {
            "name": f"t{number}",
            "replicas": 1,
            "template": template,
            **({"dependsOn": {"name": [f"t{number - 1}"]}} if number else {}),
        }
        for number in range(8_000)
    ]
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"job-{name}", "creationTimestamp": CREATED}
    return [("Job", {"metadata": meta, "spec": {"schedulerName": VOLCANO_SCHEDULER, "tasks": tasks}})]


def _says_it_is_faulty(name: str, _nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    """The pods of a Deployment whose template says that their hardware is faulty."""
    objects = [_pod(f"{name}-{number}", name, {}) for number in range(8)]
    for _, body in objects:
        meta = body["metadata"]
        del meta["annotations"]
        meta["labels"] = {FAULT_SCHEDULING: "force", FAULT_TYPE: "Separate"}
        meta["creationTimestamp"] = "2023-01-31T08:00:00Z"
        owner = {"apiVersion": DEPLOYMENT_API, "kind": "ReplicaSet", "name": name, "uid": f"owner-{name}"}
        meta["ownerReferences"] = [{**owner, "controller": True}]
    return objects


def _long_names(name: str, _nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    kind, group = _group(name)
    group["spec"]["priorityClassName"] = name + "p" * 1_400_000
    return [(kind, group)]


def _at_the_limits(name: str, nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    """As much of everything as is allowed."""
    terms, values = limits.TERMS.most, limits.VALUES.most // limits.TERMS.most // 4
    hosts = [f"nowhere-{number}" for number in range(values)]
    near = [
        {"topologyKey": HOSTNAME, "labelSelector": _expression("NotIn", *hosts, f"{number}", key="owner")}
        for number in range(terms)
    ]
    left = (limits.REQUIREMENTS.most - terms) // 2
    required = [_expression("NotIn", *hosts[1:], f"nowhere-{number}") for number in range(left)]
    preferred = [
        {"weight": 1 + number % 100, "preference": _expression("NotIn", *hosts[1:], nodes[number])}
        for number in range(min(left, len(nodes)))
    ]
    affinity = {
        "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": required}, _PREFERRED: preferred},
        "podAntiAffinity": {
            _PREFERRED: [{"weight": 1, "podAffinityTerm": one} for one in near[: terms // 2]],
            _REQUIRED: near[terms // 2 :],
        },
    }
    return _lone(name, affinity)


def spread_out(name: str, _nodes: Sequence[str], expressions: int | None = None) -> list[tuple[str, Plain]]:
    """A pod with 60 spread constraints, each with so many expressions, or as many as are allowed."""
    each = limits.REQUIREMENTS.most // 60 if expressions is None else expressions
    constraints = []
    for number in range(60):
        wanted = [
            {"key": f"label-{place}", "operator": "NotIn", "values": [f"{name}-{number}"]}
            for place in range(each)
        ]
        constraints.append(
            {
                "maxSkew": 100,
                "topologyKey": HOSTNAME if number < 2 else f"nowhere-{number // 2}",
                "whenUnsatisfiable": "ScheduleAnyway" if number % 2 else "DoNotSchedule",
                "labelSelector": {"matchExpressions": wanted},
            }
        )
    return [_group(name), _pod(f"{name}-0", name, {}, topologySpreadConstraints=constraints)]


def _local_volumes(name: str, nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    """A pod with as many claims as are allowed, each of another size, and 1,000 local volumes for all."""

    def meta(of: str) -> Plain:
        return {"name": of, "uid": of, "creationTimestamp": CREATED}

    storage = "hostile-local"
    objects: list[tuple[str, Plain]] = [
        (
            "StorageClass",
            {
                "metadata": meta(storage),
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )
    ]
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage}
    for number in range(1_000):
        here = {"nodeSelectorTerms": [_expression("In", nodes[number % len(nodes)])]}
        spec = {**common, "capacity": {"storage": f"{1 + number}Gi"}, "nodeAffinity": {"required": here}}
        objects.append(
            (
                "PersistentVolume",
                {
                    "metadata": meta(f"{storage}-{number}"),
                    "spec": {**spec, "local": {"path": "/data"}},
                    "status": {"phase": "Available"},
                },
            )
        )
    volumes = []
    for number in range(limits.POD_CLAIMS.most):
        claim = f"{name}-{number}"
        asked = {"requests": {"storage": f"{1 + number}Gi"}}
        body = {
            "metadata": {**meta(claim), "namespace": NAMESPACE},
            "spec": {**common, "resources": asked},
            "status": {"phase": "Pending"},
        }
        objects.append(("PersistentVolumeClaim", body))
        volumes.append({"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}})
    return [*objects, _group(name), _pod(f"{name}-0", name, {}, volumes=volumes)]


def pinned_gang(
    name: str, nodes: Sequence[str], pods: int, minimum: int | None = None
) -> list[tuple[str, Plain]]:
    """A gang each pod of which names its host; with `minimum` all others are beyond the gang."""
    return _pinned(name, nodes, pods, by_label=True, minimum=minimum)


def _just_repulsive(name: str, nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    return _repulsive(name, nodes, limits.TERMS.most)


def _reservations(name: str, nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    """As many as a large cluster has, one after the other, each of up to 50 nodes."""
    result: list[tuple[str, Plain]] = []
    for number in range(500):
        day = f"21{number // 300:02}-{number // 25 % 12 + 1:02}-{number % 25 + 1:02}"
        spec = {
            "nodeNames": [nodes[(number * 50 + one) % len(nodes)] for one in range(min(50, len(nodes)))],
            "holder": {"namespace": "team"},
            "startTime": f"{day}T08:00:00Z",
            "endTime": f"{day}T18:00:00Z",
        }
        result.append(("NodeReservation", {"metadata": {"name": f"{name}-{number}"}, "spec": spec}))
    return result


def _isolations(name: str, nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    """As many as a large cluster has: a chip of each node, the first ones of them twice."""
    return [
        (
            "Isolation",
            {
                "metadata": {"name": f"{name}-{number}"},
                "spec": {"node": nodes[number % len(nodes)], "chips": [f"Ascend910-{number % 8}"]},
            },
        )
        for number in range(500)
    ]


def _usage_limits(name: str, _: Sequence[str]) -> list[tuple[str, Plain]]:
    """Of queues, namespaces and users, and of what they have in common."""
    result: list[tuple[str, Plain]] = []
    for number in range(500):
        parts = ("namespace", "queue", "user")
        chosen = [part for place, part in enumerate(parts) if (number % 7 + 1) >> place & 1]
        subject = {part: "*" if number < 7 else f"{part}-{number}" for part in chosen}
        hard = {"requests.huawei.com/Ascend910": 100_000, "cpu": "1M", "runningJobs": 100_000}
        spec = {"subject": subject, "hard": hard, "maxRunTime": "1000h"}
        result.append(("UsageLimit", {"metadata": {"name": f"{name}-{number}"}, "spec": spec}))
    return result


def _move_plans(name: str, nodes: Sequence[str]) -> list[tuple[str, Plain]]:
    """Approved ones with many places, for a job that waits; their jobs do not exist."""
    target = {"kind": "PodGroup", "namespace": NAMESPACE, "name": name, "uid": f"group-{name}"}
    places = [
        {
            "name": f"none-{number}",
            "uid": f"none-{number}",
            "from": {"node": nodes[number % len(nodes)], "chips": [number % 8]},
            "to": {"node": nodes[(number + 1) % len(nodes)], "chips": [number % 8]},
        }
        for number in range(300)
    ]
    moves = [{"kind": "PodGroup", "namespace": NAMESPACE, "name": "none", "pods": places}]
    spec = {"targetRef": target, "moves": moves, "approval": "Approved"}
    plans: list[tuple[str, Plain]] = [
        ("MovePlan", {"metadata": {"name": f"{name}-{number}", "uid": f"{name}-{number}"}, "spec": spec})
        for number in range(500)
    ]
    return [*_lone(name, names_node("nowhere")), *plans]


HOSTILE: tuple[HostileObject, ...] = (
    HostileObject("a pod with 14,000 required node terms", _required_terms),
    HostileObject("a pod with 14,000 preferred node terms", _preferred_terms),
    HostileObject("a pod with an In of 150,000 values", _values),
    HostileObject("a running pod with 3,000 anti-affinity terms", _repulsive),
    HostileObject("a running pod with as many as are allowed", _just_repulsive),
    HostileObject("a pod with as much of everything as is allowed", _at_the_limits, is_placed=True),
    HostileObject(
        "a gang of 400 pods that name their nodes",
        lambda name, nodes: _pinned(name, nodes, 400, by_label=False),
        is_placed=True,
    ),
    HostileObject(
        "a gang of 600 pods that name their hosts",
        lambda name, nodes: pinned_gang(name, nodes, 600),
        is_placed=True,
    ),
    HostileObject("a vcjob with a chain of 8,000 tasks", _chain),
    HostileObject("a Deployment of 8 pods that say they are faulty", _says_it_is_faulty),
    HostileObject("a pod with as many spread constraints as are allowed", spread_out),
    HostileObject("a pod with 256 claims and 1,000 local volumes", _local_volumes),
    HostileObject("500 NodeReservations", _reservations),
    HostileObject("500 Isolations", _isolations),
    HostileObject("500 MovePlans", _move_plans),
    HostileObject("500 UsageLimits", _usage_limits),
    HostileObject("a PodGroup with a priority class of 1.4 MB", _long_names),
)
