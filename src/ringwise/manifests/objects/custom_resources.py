"""Custom resources of Ringwise: what all of them have, how they are read and written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ringwise.manifests.objects.metadata import Identity, identity
from ringwise.manifests.text.checking import checked, no_hook
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ConditionWire, MetaWire, ObjectWire, WireStruct
from ringwise.wellknown import ApiResource

Spec = TypeVar("Spec")

MAX_NAME = 253
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", re.ASCII)


class VersionedCondition(ConditionWire):
    observed_generation: int | None = None


class ConditionListWire(WireStruct):
    conditions: list[VersionedCondition] | None = None


class VersionedMeta(MetaWire):
    generation: int | None = None


class CustomResourceWire(ObjectWire):
    metadata: VersionedMeta = msgspec.field(default_factory=VersionedMeta)
    #: `read_spec` decodes it into the struct of its kind.
    spec: Any = None
    status: ConditionListWire | None = None

    @property
    def generation(self) -> int:
        return self.metadata.generation or 0

    @property
    def conditions(self) -> list[VersionedCondition]:
        return (self.status.conditions if self.status is not None else None) or []


def read_spec(
    wire: CustomResourceWire,
    resource: ApiResource,
    kind: type[Spec],
    issues: Findings,
    longest_name: int = MAX_NAME,
) -> tuple[Identity, Spec | None]:
    """The metadata and the spec; no spec, with all errors, if it does not fit the struct.

    The struct forbids unknown fields if a field of a newer version may restrict what the others say.
    """
    name = wire.metadata.name
    if name and not is_name(name, longest_name):
        allowed = "lower-case letters and digits, with '-' and '.' between them"
        issues.invalid("metadata.name", name, f"must have at most {longest_name} {allowed}")
    who = identity(wire.metadata, resource.kind, issues, namespaced=False)
    return who, checked(wire.spec or {}, kind, "spec", issues, no_hook)


def is_name(text: str, longest: int = MAX_NAME) -> bool:
    return len(text) <= longest and _NAME.fullmatch(text) is not None


def custom_resource(resource: ApiResource, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object. Fields that it does not have are null, so that a merge patch removes them."""
    return {
        "apiVersion": resource.version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": dict(spec),
    }


def without_nulls(body: Mapping[str, Any]) -> dict[str, Any]:
    """The object to create: the API server does not take null for every type."""
    return {
        name: without_nulls(value) if isinstance(value, dict) else value
        for name, value in body.items()
        if value is not None
    }
