"""Admission policies as objects of the API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ringwise.wellknown import WEBHOOK_API


def policy_objects(meta: dict[str, Any], rules: Mapping[str, Any], action: str) -> Iterator[dict[str, Any]]:
    """A policy with the rules of a file of the chart, and its binding."""
    yield {
        "apiVersion": WEBHOOK_API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": meta,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules["resourceRules"]},
            **{key: rules[key] for key in ("matchConditions", "variables", "validations") if key in rules},
        },
    }
    yield {
        "apiVersion": WEBHOOK_API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": meta,
        "spec": {"policyName": meta["name"], "validationActions": [action]},
    }
