"""The webhook configuration: which requests the API server sends, and what it does without an answer."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import yaml

from ringwise.wellknown import SCHEDULER_NAMES, WEBHOOK_API

NAME = "ringwise-admission"
PATH = "/validate"
MUTATE_PATH = "/mutate"
USER_PATH = "/user"
SERVICE_PORT = 443
WEBHOOK_PORT = 9443
#: Seconds.
TIMEOUT = 5
#: The condition that leaves out objects of other schedulers.
OUR_SCHEDULER = "our-scheduler"
#: Existing pods and PodGroups are checked for their sizes alone, where something that has a size changed.
GROWS = "grows"
#: What `kubectl debug` adds to a running pod.
DEBUG_CONTAINERS = "ephemeralcontainers"


def mutating_configuration(
    namespace: str, labels: dict[str, str], user_accounts: Sequence[str] | None = None
) -> dict[str, Any]:
    """What the API server sends before it stores a new object, to be filled in.

    With the policy that guards it also what gets the user's name; `user_accounts` create objects for others.
    """
    made = _configuration("Mutating", namespace, labels)
    if user_accounts is not None:
        hooks = _hooks(namespace, user_accounts)["users"]
        made["webhooks"] = [*made["webhooks"], *hooks]
    return made


def webhook_configuration(namespace: str, labels: dict[str, str]) -> dict[str, Any]:
    """What the API server sends to be checked."""
    return _configuration("Validating", namespace, labels)


def _configuration(kind: str, namespace: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": WEBHOOK_API,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": NAME, "labels": labels},
        "webhooks": _hooks(namespace)[kind.lower()],
    }


def _hooks(namespace: str, user_accounts: Sequence[str] = ()) -> dict[str, Any]:
    """The file of the chart."""
    file = files("ringwise").joinpath("deploy", "helm", "ringwise", "files", "webhooks.yaml")
    text = file.read_text(encoding="utf-8").replace("NAMESPACE", namespace)
    text = text.replace("ACCOUNTS", str([*user_accounts])).replace("SCHEDULERS", str([*SCHEDULER_NAMES]))
    found: dict[str, Any] = yaml.safe_load(text)
    return found


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
