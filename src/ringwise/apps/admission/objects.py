"""What the API server is told about the webhook: which requests it is shown, and what if it is silent."""

from __future__ import annotations

from typing import Any

from ringwise.wellknown import BATCH_GROUP, KUBE_SYSTEM, NAMESPACE_NAME, SCHEDULING_GROUP, WEBHOOK_API

NAME = "ringwise-admission"
PATH = "/validate"
SERVICE_PORT = 443
WEBHOOK_PORT = 9443
#: Seconds. A person waits for `kubectl apply`; a slow answer is no answer.
TIMEOUT = 5
_OURS = "object.spec.schedulerName in ['volcano', 'ringwise']"


def webhook_configuration(namespace: str, labels: dict[str, str]) -> dict[str, Any]:
    """Without an authority: the webhook makes one and writes it here by itself."""
    client = {"service": {"name": NAME, "namespace": namespace, "path": PATH, "port": SERVICE_PORT}}
    everywhere = {
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        # A webhook that is down must never stop anybody's work: the scheduler tells the same reason later.
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
    return {
        "apiVersion": WEBHOOK_API,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": labels},
        "webhooks": [
            {
                "name": "jobs.ringwise.io",
                **everywhere,
                "rules": [_rule(BATCH_GROUP, "v1alpha1", "jobs", "CREATE", "UPDATE")],
            },
            {
                "name": "podgroups.ringwise.io",
                **everywhere,
                "rules": [_rule(SCHEDULING_GROUP, "v1beta1", "podgroups", "CREATE")],
            },
            {
                "name": "pods.ringwise.io",
                **everywhere,
                "rules": [_rule("", "v1", "pods", "CREATE")],
                # Pods of other schedulers are not even sent to us.
                "matchConditions": [{"name": "our-scheduler", "expression": _OURS}],
            },
        ],
    }


def _rule(group: str, version: str, resource: str, *operations: str) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": [resource],
        "scope": "Namespaced",
    }
