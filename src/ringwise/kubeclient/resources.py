"""API resources and their paths."""

from __future__ import annotations

from urllib.parse import quote

from ringwise.records import dataclass
from ringwise.wellknown import (
    ACCESS_API,
    BATCH_API,
    BUS_API,
    DEPLOYMENT_API,
    DISRUPTION_API,
    KUBERNETES_JOB_API,
    LEASE_API,
    NETWORK_POLICY_API,
    PRIORITY_API,
    SCHEDULING_API,
    TOKEN_API,
)


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object. `version` is its group and version as written in apiVersion."""

    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def root(self) -> str:
        return f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The path of one object, of the objects of one namespace or, without a namespace, of all objects."""
        parts = [self.root]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        if name:
            # Names of owners are not checked by the API server: one with `/../` must not name another object.
            parts.append(quote(name, safe=":"))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


NODES = Resource("v1", "Node", "nodes", namespaced=False)
PODS = Resource("v1", "Pod", "pods")
NAMESPACES = Resource("v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps")
SERVICES = Resource("v1", "Service", "services")
SECRETS = Resource("v1", "Secret", "secrets")
CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NETWORK_POLICIES = Resource(NETWORK_POLICY_API, "NetworkPolicy", "networkpolicies")
EVENTS = Resource("v1", "Event", "events")
DISRUPTION_BUDGETS = Resource(DISRUPTION_API, "PodDisruptionBudget", "poddisruptionbudgets")
RESOURCE_QUOTAS = Resource("v1", "ResourceQuota", "resourcequotas")
PRIORITY_CLASSES = Resource(PRIORITY_API, "PriorityClass", "priorityclasses", namespaced=False)
POD_GROUPS = Resource(SCHEDULING_API, "PodGroup", "podgroups")
QUEUES = Resource(SCHEDULING_API, "Queue", "queues", namespaced=False)
REPLICATION_CONTROLLERS = Resource("v1", "ReplicationController", "replicationcontrollers")
REPLICA_SETS = Resource(DEPLOYMENT_API, "ReplicaSet", "replicasets")
STATEFUL_SETS = Resource(DEPLOYMENT_API, "StatefulSet", "statefulsets")
DAEMON_SETS = Resource(DEPLOYMENT_API, "DaemonSet", "daemonsets")
KUBERNETES_JOBS = Resource(KUBERNETES_JOB_API, "Job", "jobs")
VCJOBS = Resource(BATCH_API, "Job", "jobs")
JOB_COMMANDS = Resource(BUS_API, "Command", "commands")
LEASES = Resource(LEASE_API, "Lease", "leases")
TOKEN_REVIEWS = Resource(TOKEN_API, "TokenReview", "tokenreviews", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Resource(ACCESS_API, "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
