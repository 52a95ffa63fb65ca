"""The webhook configuration: which requests the API server sends, and what it does without an answer."""

from __future__ import annotations

from typing import Any

from ringwise.manifests.workloads import APPS_GROUP, KUBERNETES_BATCH_GROUP
from ringwise.wellknown import (
    ASCEND_JOB_GROUP,
    BATCH_GROUP,
    KUBE_SYSTEM,
    KUBEFLOW_GROUP,
    NAMESPACE_NAME,
    QUEUE_GATE,
    SCHEDULING_GROUP,
    WEBHOOK_API,
)

NAME = "ringwise-admission"
PATH = "/validate"
MUTATE_PATH = "/mutate"
SERVICE_PORT = 443
WEBHOOK_PORT = 9443
#: Seconds. `kubectl apply` waits for the webhook, so a slow answer is worse than none.
TIMEOUT = 5
#: The condition that leaves out objects of other schedulers. The chart has the same name.
OUR_SCHEDULER = "our-scheduler"
_OURS = "object.spec.schedulerName in ['volcano', 'ringwise']"
#: Built-in kinds: the API server has filled in the schedulerName of the template.
_OURS_BY_TEMPLATE = "object.spec.template.spec.schedulerName in ['volcano', 'ringwise']"
#: Existing pods and PodGroups are checked for their sizes alone, where something that has a size changed.
GROWS = "grows"
_GROWS = (
    "request.operation == 'CREATE' || object.spec != oldObject.spec || "
    "(has(object.metadata.labels) ? object.metadata.labels : {}) != "
    "(has(oldObject.metadata.labels) ? oldObject.metadata.labels : {})"
)
_ASKS_FOR_QUEUE_GATE = (
    f"has(object.metadata.annotations) && '{QUEUE_GATE}' in object.metadata.annotations && "
    f"object.metadata.annotations['{QUEUE_GATE}'] == 'true'"
)
#: Only their queue can be that of the namespace.
_IN_DEFAULT_QUEUE = "!has(object.spec.queue) || object.spec.queue in ['', 'default']"
_BUILT_IN = (
    (APPS_GROUP, "v1", ("deployments", "replicasets", "statefulsets")),
    (KUBERNETES_BATCH_GROUP, "v1", ("jobs",)),
    ("", "v1", ("replicationcontrollers",)),
)
#: What `kubectl debug` adds to a running pod.
DEBUG_CONTAINERS = "ephemeralcontainers"
#: A queue can be wrong for others, so its deletion is checked, too.
_CHANGES = ("CREATE", "UPDATE", "DELETE")
_OPERATOR_JOBS = (
    (ASCEND_JOB_GROUP, "v1", ("ascendjobs",)),
    (KUBEFLOW_GROUP, "*", ("pytorchjobs", "tfjobs", "mpijobs", "paddlejobs", "xgboostjobs", "jaxjobs")),
)


def _everywhere(namespace: str, path: str) -> dict[str, Any]:
    """Without a caBundle: the webhook creates its authority and writes it here."""
    client = {"service": {"name": NAME, "namespace": namespace, "path": path, "port": SERVICE_PORT}}
    return {
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        # A webhook that is down must not block jobs: the scheduler reports the same reason later.
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT,
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": NAMESPACE_NAME,
                    "operator": "NotIn",
                    "values": [KUBE_SYSTEM, namespace],
                }
            ]
        },
    }


def mutating_configuration(namespace: str, labels: dict[str, str]) -> dict[str, Any]:
    """What the API server sends before it stores a new object, to be filled in."""
    everywhere = {**_everywhere(namespace, MUTATE_PATH), "reinvocationPolicy": "Never"}
    jobs = _rule(BATCH_GROUP, "v1alpha1", ("jobs",), "CREATE")
    queues = {**_rule(SCHEDULING_GROUP, "v1beta1", ("queues",), "CREATE"), "scope": "Cluster"}
    groups = _rule(SCHEDULING_GROUP, "v1beta1", ("podgroups",), "CREATE")
    return {
        "apiVersion": WEBHOOK_API,
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": labels},
        "webhooks": [
            {"name": "fill.jobs.ringwise.io", **everywhere, "rules": [jobs]},
            {"name": "fill.queues.ringwise.io", **everywhere, "rules": [queues]},
            {
                "name": "fill.podgroups.ringwise.io",
                **everywhere,
                "rules": [groups],
                "matchConditions": [{"name": "in-the-default-queue", "expression": _IN_DEFAULT_QUEUE}],
            },
            {
                "name": "fill.pods.ringwise.io",
                **everywhere,
                "rules": [_rule("", "v1", ("pods",), "CREATE")],
                # Only pods that ask for the gate are sent to the webhook.
                "matchConditions": [
                    {"name": OUR_SCHEDULER, "expression": _OURS},
                    {"name": "asks-for-the-queue-gate", "expression": _ASKS_FOR_QUEUE_GATE},
                ],
            },
        ],
    }


def webhook_configuration(namespace: str, labels: dict[str, str]) -> dict[str, Any]:
    """What the API server sends to be checked."""
    everywhere = _everywhere(namespace, PATH)
    return {
        "apiVersion": WEBHOOK_API,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": labels},
        "webhooks": [
            {
                "name": "jobs.ringwise.io",
                **everywhere,
                "rules": [_rule(BATCH_GROUP, "v1alpha1", ("jobs",), "CREATE", "UPDATE")],
            },
            {
                "name": "podgroups.ringwise.io",
                **everywhere,
                "rules": [_rule(SCHEDULING_GROUP, "v1beta1", ("podgroups",), "CREATE", "UPDATE")],
                "matchConditions": [{"name": GROWS, "expression": _GROWS}],
            },
            {
                "name": "pods.ringwise.io",
                **everywhere,
                "rules": [
                    _rule("", "v1", ("pods",), "CREATE", "UPDATE"),
                    _rule("", "v1", (f"pods/{DEBUG_CONTAINERS}",), "UPDATE"),
                ],
                # Pods of other schedulers are not sent to the webhook.
                "matchConditions": [
                    {"name": OUR_SCHEDULER, "expression": _OURS},
                    {"name": GROWS, "expression": _GROWS},
                ],
            },
            {
                "name": "workloads.ringwise.io",
                **everywhere,
                "rules": _rules(_BUILT_IN),
                "matchConditions": [{"name": OUR_SCHEDULER, "expression": _OURS_BY_TEMPLATE}],
            },
            {"name": "operator-jobs.ringwise.io", **everywhere, "rules": _rules(_OPERATOR_JOBS)},
            {
                "name": "queues.ringwise.io",
                **everywhere,
                "rules": [_rule(SCHEDULING_GROUP, "v1beta1", ("queues",), *_CHANGES, scope="Cluster")],
            },
        ],
    }


def without_conditions(configuration: dict[str, Any]) -> dict[str, Any]:
    """For an API server without matchConditions: existing pods and PodGroups would be sent all the time."""
    hooks = []
    for hook in configuration["webhooks"]:
        kept = {key: value for key, value in hook.items() if key != "matchConditions"}
        if any(one["name"] == GROWS for one in hook.get("matchConditions", ())):
            both = ["CREATE", "UPDATE"]
            kept["rules"] = [
                {**rule, "operations": ["CREATE"]} if rule["operations"] == both else rule
                for rule in hook["rules"]
            ]
        hooks.append(kept)
    return {**configuration, "webhooks": hooks}


def _rules(kinds: tuple[tuple[str, str, tuple[str, ...]], ...]) -> list[dict[str, Any]]:
    return [_rule(group, version, resources, "CREATE", "UPDATE") for group, version, resources in kinds]


def _rule(
    group: str, version: str, resources: tuple[str, ...], *operations: str, scope: str = "Namespaced"
) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(resources),
        "scope": scope,
    }
