"""Metadata of objects: name, labels, annotations, timestamps, owner."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from ringwise import wellknown
from ringwise.manifests.text.checking import keyed
from ringwise.manifests.text.errors import Findings, invalid
from ringwise.manifests.text.limits import LABELS, NAME, check
from ringwise.manifests.text.quantities import nanoseconds
from ringwise.manifests.text.strings import shared
from ringwise.manifests.text.wire import MetaWire, OwnerReferenceWire, Texts
from ringwise.records import dataclass
from ringwise.state.model import EMPTY, Owner

#: Annotations that are kept: those that Ringwise reads or writes. All others are dropped to save memory; a
#: dump contains the last applied manifest of every pod.
_READ_PREFIXES = (
    wellknown.CHIP_RESOURCE_PREFIX,
    wellknown.VOLCANO_PREFIX,
    wellknown.VOLCANO_SCHEDULING_PREFIX,
    wellknown.KUBERNETES_SCHEDULING_PREFIX,
    wellknown.RINGWISE_PREFIX,
    wellknown.RANK_TABLE_PREFIX,
    wellknown.HCCL_PREFIX,
    wellknown.SUPERPOD_REQUEST_PREFIX,
    wellknown.RACK_REQUEST_PREFIX,
    wellknown.SUPER_POD_PREFIX,
    wellknown.TOR_AFFINITY,
)
_READ_KEYS = frozenset(
    {
        wellknown.PREDICATE_TIME,
        wellknown.SUPERPOD_ANNOTATION,
        wellknown.SERVER_INDEX,
        wellknown.SERVER_TYPE,
        wellknown.RACK_ANNOTATION,
        wellknown.IS_SHARED_TOR,
        wellknown.IS_HEALTHY,
        wellknown.SHARED_TOR_IP,
        wellknown.DISTRIBUTED_JOB,
        wellknown.RESCHEDULE_IN_PLACE,
        wellknown.RECOVER_STRATEGY,
        wellknown.WAIT_RESCHEDULE_TIMEOUT,
        wellknown.PROCESS_RECOVER_STRATEGY,
        wellknown.NEED_VOLCANO_OPERATION,
        wellknown.BACKUP_NEW_POD,
        wellknown.BACKUP_SOURCE_POD,
        wellknown.IN_HOT_SWITCH,
        wellknown.POD_TYPE,
        wellknown.RESET_INFO,
        wellknown.NODE_HEALTHY_STATUS,
        wellknown.SLA_WAITING_TIME_OLD,
    }
)
#: Limit of the API server for all annotations of one object.
MAX_ANNOTATION_CHARACTERS = 256 * 1024
#: Namespace of the uids of objects without one, which are derived from their names.
_UIDS = uuid.UUID("6f1e7a52-2f0c-5a39-9a0e-6d2f8a1c4b77")


@dataclass(slots=True)
class Identity:
    """The checked metadata of one object."""

    namespace: str
    name: str
    uid: str
    created: int
    deleting: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner: Owner | None


def identity(meta: MetaWire, kind: str, issues: Findings, *, namespaced: bool = True) -> Identity:
    """Checked metadata. A missing namespace is `default`, a missing uid is derived from kind and name."""
    name = name_of(object_name(meta), "metadata.name", issues)
    namespace = ""
    if namespaced:
        namespace = name_of(meta.namespace or "default", "metadata.namespace", issues)
    time_of(meta.deletion_timestamp, "metadata.deletionTimestamp", issues)
    if namespaced:
        # Nodes and Queues are the operator's.
        check(LABELS, meta.labels, "metadata.labels", issues)
    return Identity(
        namespace=namespace,
        name=name,
        uid=meta.uid or derived_uid(kind, namespace, name),
        created=time_of(meta.creation_timestamp, "metadata.creationTimestamp", issues),
        deleting=meta.deletion_timestamp is not None,
        labels=texts(meta.labels),
        annotations=read_annotations(meta.annotations, "metadata.annotations", issues),
        owner=owner_of(meta.owner_references),
    )


def object_name(meta: MetaWire) -> str | None:
    """A name that the API server makes from `generateName` ends with 0: equal inputs have equal answers."""
    return meta.name or (f"{meta.generate_name}0" if meta.generate_name else None)


def derived_uid(kind: str, namespace: str, name: str) -> str:
    """The same name has the same uid in every run."""
    return str(uuid.uuid5(_UIDS, f"{kind}/{namespace}/{name}"))


def name_of(name: str | None, field: str, issues: Findings) -> str:
    if not name:
        issues.add_error(field, "Required value")
        return ""
    if len(name) > NAME.most or "/" in name or " " in name or not name.isprintable():
        issues.invalid(field, name, f"must be a name of at most {NAME.most} letters, digits, '-' and '.'")
    return shared(name)


def reference(name: str | None, field: str, issues: Findings, default: str = "") -> str:
    """The name of another object, which may be missing."""
    if name and len(name) > NAME.most:
        issues.too_large(field, invalid(name, f"must be a name of at most {NAME.most} characters"))
        return default
    return shared(name or default)


def time_of(text: str | None, field: str, issues: Findings) -> int:
    return 0 if text is None else issues.parsed(field, text, nanoseconds, 0)


def texts(values: Texts | None) -> Mapping[str, str]:
    """A map of strings, each kept once. Null is the empty string, as for the API server."""
    if not values:
        return EMPTY
    return {shared(key): shared(value or "") for key, value in values.items()}


def read_annotations(values: Texts | None, field: str, issues: Findings) -> Mapping[str, str]:
    if not values:
        return EMPTY
    size = 0
    result: dict[str, str] = {}
    for key, value in values.items():
        value = value or ""
        size += len(key) + len(value)
        if key.startswith(_READ_PREFIXES) or key in _READ_KEYS:
            result[shared(key)] = value
    if size > MAX_ANNOTATION_CHARACTERS:
        longest = max(values, key=lambda key: len(values[key] or ""))
        issues.add_error(
            keyed(field, longest),
            f"must have at most {MAX_ANNOTATION_CHARACTERS} characters in total, got {size}",
        )
        return EMPTY
    return result or EMPTY


def owner_of(references: list[OwnerReferenceWire] | None) -> Owner | None:
    """The controller, else the first owner."""
    if not references:
        return None
    reference = next((one for one in references if one.controller), references[0])
    return Owner(
        shared(reference.kind),
        shared(reference.name),
        reference.uid,
        shared(reference.api_version),
        not reference.controller,
    )


def boolean_in(text: str, field: str, issues: Findings) -> bool:
    """A boolean as text, in the spellings that Volcano accepts."""
    if text in ("1", "t", "T", "true", "True", "TRUE"):
        return True
    if text not in ("", "0", "f", "F", "false", "False", "FALSE"):
        issues.invalid(field, text, 'must be "true" or "false"')
    return False


def number_in(text: str, field: str, issues: Findings, *, least: int | None = None) -> int | None:
    """A whole number as text in a label or annotation."""
    digits = text.strip().removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 10:
        number = int(text)
        if least is None or number >= least:
            return number
    allowed = "a whole number" if least is None else f"a whole number of {least} or more"
    issues.invalid(field, text, f"must be {allowed}")
    return None
