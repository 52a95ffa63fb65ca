"""Isolations: chips, nodes, leaf switches and SuperPoDs that operators took out of use."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Annotated, Any

from msgspec import Meta

from ringwise.manifests.objects.chips import chip_of
from ringwise.manifests.objects.custom_resources import (
    CustomResourceWire,
    custom_resource,
    is_name,
    read_spec,
)
from ringwise.manifests.objects.metadata import time_of
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.quantities import rfc3339
from ringwise.manifests.text.wire import WireStruct
from ringwise.state.model import Isolation
from ringwise.wellknown import ISOLATIONS, USER

#: Chips that one of them names.
MAX_CHIPS = 64


class IsolationSpec(WireStruct):
    node: str | None = None
    chips: Annotated[list[str], Meta(max_length=MAX_CHIPS)] | None = None
    leaf_switch: str | None = None
    super_pod: Annotated[int, Meta(ge=0)] | None = None
    start_time: str | None = None
    reason: str | None = None


def isolation_from_wire(wire: CustomResourceWire, issues: Findings) -> Isolation:
    """A field of a newer version is ignored: what is isolated stays isolated after a rollback."""
    who, spec = read_spec(wire, ISOLATIONS, IsolationSpec, issues)
    if spec is None:
        return Isolation(name=who.name)
    one = Isolation(
        spec.node or "",
        tuple(spec.chips or ()),
        spec.leaf_switch or "",
        spec.super_pod,
        None if spec.start_time is None else time_of(spec.start_time, "spec.startTime", issues),
        spec.reason or "",
        who.annotations.get(USER, ""),
        who.name,
        who.created,
        wire.generation,
        tuple(sorted((wire.spec or {}).keys() - set(IsolationSpec.__struct_encode_fields__))),
    )
    if bool(one.node) + bool(one.switch) + (one.superpod is not None) != 1:
        issues.add_error("spec", "must have exactly one of node, leafSwitch, superPod")
    if spec.chips is not None and not (one.node and one.chips):
        issues.add_error("spec.chips", "must not be empty, and requires node")
    if len(set(one.chips)) < len(one.chips):
        issues.add_error("spec.chips", "must not name a chip twice")
    for position, chip in enumerate(one.chips):
        if chip_of(chip) is None:
            issues.invalid(f"spec.chips[{position}]", chip, "must be the name of a chip like Ascend910-3")
    return one


def isolation_name(one: Isolation) -> str:
    """The name that our commands give it: the same target and chips have the same name."""
    target = one.target.replace("/", "-") + "".join(f"-{chip}" for chip in one.chips).lower()
    if is_name(target):
        return target
    digest = hashlib.sha256(target.encode()).hexdigest()[:8]
    return f"{re.sub('[^-.a-z0-9]', '-', target.lower())[:100].strip('-.') or 'isolation'}-{digest}"


def isolation_body(one: Isolation) -> dict[str, Any]:
    """Return the object; fields that it does not have are null, so that a merge patch removes them."""
    spec = {
        "node": one.node or None,
        "chips": list(one.chips) or None,
        "leafSwitch": one.switch or None,
        "superPod": one.superpod,
        "startTime": None if one.start is None else rfc3339(one.start),
        "reason": one.reason or None,
    }
    return custom_resource(ISOLATIONS, one.name, spec)


def isolate_changes(existing: Iterable[Isolation], wanted: Isolation) -> dict[str, Isolation | None]:
    """By name: what has to be written so that `wanted` is in force; empty if it is already.

    A scheduled drain does not replace what is isolated now.
    """
    existing = list(existing)
    same = [one for one in existing if one.target == wanted.target]
    covering = [one for one in same if one.start is None or one.start == wanted.start]
    if wanted.chips:
        isolated = {chip for one in covering for chip in one.chips}
        wanted = replace(wanted, chips=tuple(chip for chip in wanted.chips if chip not in isolated))
        if not wanted.chips:
            return {}
    elif any(not one.chips for one in covering):
        return {}
    old = next((one for one in same if one.chips == wanted.chips), None)
    name = _free_name(wanted, {one.name for one in existing}) if old is None else old.name
    return {name: replace(wanted, name=name)}


def _free_name(wanted: Isolation, taken: Collection[str]) -> str:
    """The name of a new isolation; it must not overwrite an existing one, of something else."""
    first = name = isolation_name(wanted)
    number = 2
    while name in taken:
        name, number = f"{first[:240].rstrip('-.')}-{number}", number + 1
    return name


def unisolate_changes(existing: Iterable[Isolation], wanted: Isolation) -> dict[str, Isolation | None]:
    """By name: what has to be written, and None for what has to be deleted, so that it is not isolated."""
    result: dict[str, Isolation | None] = {}
    for one in existing:
        if one.target != wanted.target or bool(one.chips) != bool(wanted.chips):
            continue
        left = tuple(chip for chip in one.chips if chip not in wanted.chips)
        if left != one.chips or not wanted.chips:
            result[one.name] = replace(one, chips=left) if left else None
    return result


def isolated_chips(isolations: Iterable[Isolation], node: str, chips: Iterable[str]) -> dict[str, Isolation]:
    """The chips of a node that are isolated now, by themselves or with the node."""
    here = [one for one in isolations if one.node == node and one.start is None]
    return {chip: one for one in here for chip in chips if not one.chips or chip in one.chips}
