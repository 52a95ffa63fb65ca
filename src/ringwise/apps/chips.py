"""The chips of a cluster as its nodes report them, and which of them operators took out of use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ringwise.apps.live import NothingReadableError, read_cluster
from ringwise.apps.loaded_cluster import from_bundle
from ringwise.apps.targets import UnknownTargetError, find_target, replaces
from ringwise.device.reporter import StoredMap
from ringwise.kubeclient.client import PAGE_SIZE, ApiError, Client, Page, UnreachableError
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.nesting import decode_nested
from ringwise.kubeclient.resources import CONFIG_MAPS, NODES, PODS
from ringwise.manifests.chips import chip_of
from ringwise.manifests.isolation import entry_of, isolated_chips, read_isolations
from ringwise.manifests.wire import ConfigMapWire, PodWire, WireStruct
from ringwise.records import dataclass
from ringwise.state.model import Isolation
from ringwise.topology.boards import shipped_catalog
from ringwise.topology.natural import natural_key
from ringwise.views.documents.cluster import ChipFields
from ringwise.wellknown import (
    ASCEND_REAL,
    CHIP_RESOURCE_PREFIX,
    DEVICE_INFO_KEY,
    DEVICE_INFO_PREFIX,
    DOUBTFUL_CHIPS_KEY,
    FAULT_SUFFIX,
    ISOLATED_CHIPS_KEY,
    ISOLATION_CONFIG_MAP,
    KUBE_SYSTEM,
    LAST_ISOLATION_CHANGE,
    MANUALLY_SEPARATE_KEY,
    MOUNTED_CHIPS_KEY,
    NETWORK_UNHEALTHY_SUFFIX,
    NODE_REPORT_LABEL,
    UNHEALTHY_SUFFIX,
)

Wire = TypeVar("Wire")
_RAW = msgspec.json.Decoder(Page[msgspec.Raw])
_MAP = msgspec.json.Decoder(ConfigMapWire)
_POD = msgspec.json.Decoder(PodWire)
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)

#: A conditional write is tried so often when others write at the same time.
ATTEMPTS = 5


class ChipsError(Exception):
    """What a person asked for is not possible; one line."""


@dataclass(frozen=True, slots=True)
class ChipRow:
    node: str
    chip: str
    #: free, used, unhealthy or isolated.
    state: str
    pod: str
    network: bool
    faults: str
    note: str

    def as_json(self) -> ChipFields:
        return {
            "node": self.node,
            "chip": self.chip,
            "state": self.state,
            "pod": self.pod or None,
            "network_healthy": self.network,
            "faults": self.faults or None,
            "note": self.note or None,
        }


@dataclass(frozen=True, slots=True)
class ChipList:
    rows: list[ChipRow]
    #: Objects that could not be read, one line each; the chips of all others are listed.
    problems: list[str]


class _Listed(WireStruct, rename=None):
    DeviceList: dict[str, str] | None = None


class _Fault(WireStruct, rename=None):
    npu_name: str | None = None
    fault_level: str | None = None
    fault_code: str | None = None


class _Meta(WireStruct):
    namespace: str = ""
    name: str = ""


class _Named(WireStruct):
    metadata: _Meta | None = None


_NAMED = msgspec.json.Decoder(_Named)


class _Info(WireStruct, rename=None):
    DeviceInfo: _Listed | None = None


def list_chips(access: Access, node: str | None) -> ChipList:
    """The chips of one node, or of all. Raises ApiError, UnreachableError, ChipsError."""
    return asyncio.run(_list_chips(access, node))


async def _list_chips(access: Access, node: str | None) -> ChipList:
    problems: list[str] = []
    async with Client(access, component="cli") as client:
        of_nodes = {"labelSelector": f"{NODE_REPORT_LABEL}=true"}
        of_node = {"fieldSelector": f"spec.nodeName={node}"} if node else {}
        maps = await _all(client, CONFIG_MAPS.path(KUBE_SYSTEM), of_nodes, "ConfigMap", _MAP, problems)
        pods = await _all(client, PODS.path(), of_node, "pod", _POD, problems)
        isolations = await _isolations(client)
    names = _pod_names(pods)
    rows: list[ChipRow] = []
    for one in maps:
        name = (one.metadata.name if one.metadata else None) or ""
        reporting = name.removeprefix(DEVICE_INFO_PREFIX)
        if name.startswith(DEVICE_INFO_PREFIX) and node in (None, reporting):
            data = {key: value or "" for key, value in (one.data or {}).items()}
            try:
                rows += _rows(reporting, data, names, isolations)
            except _UNREADABLE as problem:
                problems.append(f"ConfigMap {KUBE_SYSTEM}/{name} cannot be read: {problem}")
    if node is not None and not rows and not problems:
        missing = f"{KUBE_SYSTEM}/{DEVICE_INFO_PREFIX}{node}"
        raise ChipsError(f"node {node} reports no chips: there is no ConfigMap {missing}")
    rows.sort(key=lambda row: (natural_key(row.node), natural_key(row.chip)))
    return ChipList(rows, problems)


async def _all(
    client: Client,
    path: str,
    params: Mapping[str, str],
    kind: str,
    decoder: msgspec.json.Decoder[Wire],
    problems: list[str],
) -> list[Wire]:
    """The objects that can be read; each of the others is a problem."""
    found: list[Wire] = []

    def read(answer: bytes) -> Page[msgspec.Raw]:
        try:
            page: Page[msgspec.Raw] = decode_nested(_RAW, answer)
        except _UNREADABLE as problem:
            raise UnreachableError(f"a list cannot be decoded: {problem}", maybe_done=False) from None
        return page

    async for page in client.pages(path, params, PAGE_SIZE, read):
        for raw in page.items or ():
            try:
                found.append(decode_nested(decoder, raw))
            except _UNREADABLE as problem:
                problems.append(f"{kind}{_name_of(raw)} cannot be read: {problem}")
    return found


def _name_of(raw: msgspec.Raw) -> str:
    try:
        meta = msgspec.json.decode(raw, type=_Named).metadata or _Meta()
    except _UNREADABLE:
        return ""
    return f" {meta.namespace}/{meta.name}"


def _pod_names(pods: list[PodWire]) -> dict[str, str]:
    """`node/chip` of annotations, and uid, to the pod's name."""
    names: dict[str, str] = {}
    for pod in pods:
        meta, spec, status = pod.metadata, pod.spec, pod.status
        if meta is None or spec is None or (status is not None and status.phase in ("Failed", "Succeeded")):
            continue
        key = f"{meta.namespace}/{meta.name}"
        names[meta.uid or ""] = key
        annotations = meta.annotations or {}
        mounted = annotations.get(ASCEND_REAL)
        lists = [mounted] if mounted else [value for name, value in annotations.items() if _is_resource(name)]
        for text in lists:
            for chip in (text or "").split(","):
                names.setdefault(f"{spec.node_name}/{chip.strip()}", key)
    return names


def _is_resource(name: str) -> bool:
    return name.startswith(CHIP_RESOURCE_PREFIX)


def _rows(
    node: str, data: Mapping[str, str], pods: Mapping[str, str], isolations: list[Isolation]
) -> list[ChipRow]:
    info = msgspec.json.decode(data.get(DEVICE_INFO_KEY, "{}"), type=_Info)
    mounted = msgspec.json.decode(data.get(MOUNTED_CHIPS_KEY) or "{}", type=dict[str, str])
    lists = (info.DeviceInfo.DeviceList if info.DeviceInfo is not None else None) or {}
    doubtful = msgspec.json.decode(data.get(DOUBTFUL_CHIPS_KEY) or "{}", type=dict[str, str])
    by_chip, perhaps = (
        {chip: pods.get(uid, uid) for uid, text in one.items() for chip in text.split(",")}
        for one in (mounted, doubtful)
    )
    faults = _faults(lists)
    unhealthy = _names(lists, UNHEALTHY_SUFFIX)
    network = _names(lists, NETWORK_UNHEALTHY_SUFFIX)
    free = {chip for key, text in lists.items() if "-" not in key for chip in text.split(",") if chip}
    listed = (data.get(key, "") for key in (MANUALLY_SEPARATE_KEY, ISOLATED_CHIPS_KEY))
    named = {chip.strip() for text in listed for chip in text.split(",")}
    reasons = {one.chip: one for one in isolations if one.node == node}
    chips = free | unhealthy | network | named | by_chip.keys() | perhaps.keys() | faults.keys()
    chips |= {key.partition("/")[2] for key in pods if key.startswith(f"{node}/")}
    isolated = isolated_chips(isolations, node, tuple(chips))
    rows = []
    for chip in (one for one in chips if chip_of(one) is not None):
        pod = by_chip.get(chip) or pods.get(f"{node}/{chip}", "") or perhaps.get(chip, "")
        why = reasons.get(chip) or reasons.get("")
        # As in scheduler/node_states.py: the first that applies.
        state = "free" if chip in free else "used"
        if not pod and (chip in isolated or chip in unhealthy):
            state = "faulty" if chip in unhealthy else "isolated"
        note = f"{why.reason} (by {why.by}, {why.at})" if why is not None else ""
        if chip in perhaps and chip not in by_chip:
            note = f"{note}; doubtful" if note else "doubtful"
        rows.append(ChipRow(node, chip, state, pod, chip not in network, faults.get(chip, ""), note))
    return rows


def _names(lists: Mapping[str, str], ending: str) -> set[str]:
    return {chip for key, text in lists.items() if key.endswith(ending) for chip in text.split(",") if chip}


def _faults(lists: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for key, text in lists.items():
        if key.endswith(FAULT_SUFFIX):
            for one in msgspec.json.decode(text or "[]", type=list[_Fault]):
                shown = f"{one.fault_level or ''} {one.fault_code or ''}".strip()
                found.setdefault(one.npu_name or "", []).append(shown)
    return {chip: "; ".join(texts) for chip, texts in found.items()}


# -- isolation


async def _isolations(client: Client) -> list[Isolation]:
    try:
        stored = await client.get(CONFIG_MAPS, KUBE_SYSTEM, ISOLATION_CONFIG_MAP, StoredMap)
    except ApiError as error:
        if error.status == 404:
            return []
        raise
    return read_isolations(stored.data or {})


def isolate(access: Access, isolation: Isolation) -> bool:
    """Take something out of use; False when it was so already."""
    return asyncio.run(_change(access, "isolate", isolation))


def release(access: Access, isolation: Isolation) -> bool:
    """Give back what was isolated; False when it was not."""
    return asyncio.run(_change(access, "release", isolation))


def cordon(access: Access, node: str, *, on: bool) -> None:
    """Mark a node as unschedulable or schedulable, as kubectl does. Raises ChipsError."""
    asyncio.run(_cordon(access, node, on))


async def _cordon(access: Access, node: str, on: bool) -> None:
    async with Client(access, component="cli") as client:
        try:
            await client.patch(NODES, None, node, {"spec": {"unschedulable": on or None}})
        except ApiError as error:
            if error.status == 404:
                raise ChipsError(f"there is no node {node}") from None
            raise


async def _change(access: Access, action: str, one: Isolation) -> bool:
    key, written = entry_of(one)
    value = written if action == "isolate" else None
    # A release leaves no entry: the last change of all is kept beside them.
    last = {"action": action, "node": one.target, "chip": one.chip}
    last |= {"by": one.by, "at": one.at, "reason": one.reason}
    notes = {"annotations": {LAST_ISOLATION_CHANGE: json.dumps(last, ensure_ascii=False)}}
    async with Client(access, component="cli") as client:
        if value is not None:
            await (_check_node(client, one.node) if one.node else _check_group(client, one.target))
        for _ in range(ATTEMPTS):
            try:
                stored = await client.get(CONFIG_MAPS, KUBE_SYSTEM, ISOLATION_CONFIG_MAP, StoredMap)
            except ApiError as error:
                if error.status != 404:
                    raise
                if value is None:
                    return await _nothing_to_release(client, one)
                body = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"namespace": KUBE_SYSTEM, "name": ISOLATION_CONFIG_MAP, **notes},
                    "data": {key: value},
                }
                if await _written(client.create(CONFIG_MAPS, KUBE_SYSTEM, body)):
                    return True
                continue
            data = stored.data or {}
            old = read_isolations({key: data[key]})[0] if key in data else None
            if value is None and old is None:
                return await _nothing_to_release(client, one)
            if value is not None and not replaces(one, old):
                return False
            version = stored.metadata.resource_version if stored.metadata is not None else None
            patch = {"metadata": {"resourceVersion": version, **notes}, "data": {key: value}}
            if await _written(client.patch(CONFIG_MAPS, KUBE_SYSTEM, ISOLATION_CONFIG_MAP, patch)):
                return True
    raise ChipsError(f"ConfigMap {KUBE_SYSTEM}/{ISOLATION_CONFIG_MAP} is changed by others all the time")


async def _nothing_to_release(client: Client, one: Isolation) -> bool:
    """A name that was mistyped is an error; a node that is gone can be released all the same."""
    if one.node:
        await _check_node(client, one.node)
    return False


async def _written(request: Any) -> bool:
    try:
        await request
    except ApiError as error:
        if error.status == 409:
            return False
        raise
    return True


async def _check_group(client: Client, target: str) -> None:
    """A leaf switch or a SuperPoD is known from the objects of the cluster."""
    try:
        live = await read_cluster(client)
        find_target(
            from_bundle(live.bundle, live.configuration, shipped_catalog(), decide=False).view, target
        )
    except (NothingReadableError, UnknownTargetError) as problem:
        raise ChipsError(str(problem)) from None


async def _check_node(client: Client, node: str) -> None:
    """By a list: readers of the cluster may list nodes, and need no other verb for this."""
    # These signs are none of a node's name, and have a meaning in a selector.
    if not any(sign in node for sign in ",=!\\"):
        selected = {"fieldSelector": f"metadata.name={node}"}
        if await _all(client, NODES.path(), selected, "node", _NAMED, []):
            return
    raise ChipsError(f"there is no node {node}")
