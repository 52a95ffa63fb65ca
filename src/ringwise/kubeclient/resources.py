"""API resources and their paths."""

from __future__ import annotations

from urllib.parse import quote

from ringwise import wellknown
from ringwise.wellknown import (
    ACCESS_API,
    ASCEND_JOB_GROUP,
    BUS_API,
    DEPLOYMENT_API,
    DISRUPTION_API,
    KUBERNETES_JOB_API,
    LEASE_API,
    NETWORK_POLICY_API,
    PRIORITY_API,
    TOKEN_API,
    WEBHOOK_API,
    ApiResource,
)


class Resource(ApiResource):
    """One kind of object, with the paths of its objects."""

    __slots__ = ()

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

    def reference(self, name: str, uid: str, **more: str | bool) -> dict[str, str | bool]:
        """A reference to one of the objects, such as that of an owner."""
        return {"apiVersion": self.version, "kind": self.kind, "name": name, "uid": uid, **more}


NODES = Resource(*wellknown.NODES)
PODS = Resource(*wellknown.PODS)
NAMESPACES = Resource("v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAPS = Resource(*wellknown.CONFIG_MAPS)
SERVICES = Resource("v1", "Service", "services")
SECRETS = Resource("v1", "Secret", "secrets")
CLAIMS = Resource(*wellknown.CLAIMS)
VOLUMES = Resource(*wellknown.VOLUMES)
NETWORK_POLICIES = Resource(NETWORK_POLICY_API, "NetworkPolicy", "networkpolicies")
EVENTS = Resource("v1", "Event", "events")
DISRUPTION_BUDGETS = Resource(DISRUPTION_API, "PodDisruptionBudget", "poddisruptionbudgets")
POD_GROUPS = Resource(*wellknown.POD_GROUPS)
QUEUES = Resource(*wellknown.QUEUES)
HYPER_NODES = Resource(*wellknown.HYPER_NODES)
DAEMON_SETS = Resource(*wellknown.DAEMON_SETS)
VCJOBS = Resource(*wellknown.VCJOBS)
#: Jobs of Kubernetes, and owners of pods that people ask for by name.
KUBERNETES_JOBS = Resource(KUBERNETES_JOB_API, "Job", "jobs")
ASCEND_JOBS = Resource(f"{ASCEND_JOB_GROUP}/v1", "AscendJob", "ascendjobs")
DEPLOYMENTS = Resource(DEPLOYMENT_API, "Deployment", "deployments")
STATEFUL_SETS = Resource(DEPLOYMENT_API, "StatefulSet", "statefulsets")
PRIORITY_CLASSES = Resource(PRIORITY_API, "PriorityClass", "priorityclasses", namespaced=False)
JOB_COMMANDS = Resource(BUS_API, "Command", "commands")
LEASES = Resource(LEASE_API, "Lease", "leases")
TOKEN_REVIEWS = Resource(TOKEN_API, "TokenReview", "tokenreviews", namespaced=False)
WEBHOOKS = Resource(
    WEBHOOK_API, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
)
MUTATING_WEBHOOKS = Resource(
    WEBHOOK_API, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
)
SUBJECT_ACCESS_REVIEWS = Resource(ACCESS_API, "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
