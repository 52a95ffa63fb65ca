"""Writes what the node has: its ConfigMap, its annotations and labels, and corrections of pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import msgspec

from ringwise.device.allocator import Listing
from ringwise.device.cards import (
    ASCEND910A5,
    Chip,
    name_of,
    node_annotations,
    node_labels,
)
from ringwise.device.health.levels import LEVELS
from ringwise.device.health.tracker import BY_AUTOFILL, Escalation
from ringwise.device.ledger import Share
from ringwise.device.rank_tables import Levels
from ringwise.device.report import (
    EMPTY_SWITCH_INFO,
    base_device_infos,
    device_info_cfg,
    is_due,
    same_device_list,
)
from ringwise.device.watch import ObjectWatch
from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.list_watch import name_of as object_name
from ringwise.kubeclient.list_watch import version_number
from ringwise.kubeclient.resources import CONFIG_MAPS, NODES
from ringwise.log import Logger
from ringwise.manifests.text.go_json import compact
from ringwise.manifests.text.readable import readable
from ringwise.manifests.text.wire import ConfigMapWire, NodeWire
from ringwise.records import dataclass
from ringwise.wellknown import (
    ACCELERATOR_TYPE,
    DEVICE_INFO_KEY,
    DEVICE_INFO_PREFIX,
    DOUBTFUL_CHIPS_KEY,
    KUBE_SYSTEM,
    NODE_REPORT_LABEL,
    SWITCH_INFO_KEY,
    UPGRADE_REASON_KEY,
    UTILIZATION_KEY,
)

_LOG = Logger()


@dataclass(frozen=True, slots=True)
class Content:
    """One state of the ConfigMap, without its time."""

    lists: Mapping[str, str]
    #: SuperPoD, index of the server in it, and the rack where there is one.
    place: tuple[int, int, int | None]
    #: The values of other keys.
    rest: Mapping[str, str]
    #: Written when something else has changed: that is often enough, so a change of it alone is not written.
    utilization: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    def same_as(self, other: Content | None) -> bool:
        return (
            other is not None
            and same_device_list(self.lists, other.lists)
            and (self.place, self.rest) == (other.place, other.rest)
        )

    def data(self, seconds: int) -> dict[str, str]:
        """The data of the ConfigMap, written at that Unix time."""
        written = {DEVICE_INFO_KEY: device_info_cfg(self.lists, seconds, *self.place), **self.rest}
        switch = written.get(SWITCH_INFO_KEY)
        if switch and switch != EMPTY_SWITCH_INFO:
            document = msgspec.json.decode(switch)
            document["UpdateTime"] = seconds
            written[SWITCH_INFO_KEY] = compact(document)
        if self.utilization:
            written[UTILIZATION_KEY] = compact(dict(self.utilization))
        return written


def chips_text(chips_of_pods: Mapping[str, Sequence[str]]) -> str:
    return compact({uid: ",".join(chips) for uid, chips in sorted(chips_of_pods.items())})


def shares_text(shares: Mapping[str, tuple[str, Share]]) -> str:
    return compact(
        {
            uid: {"chip": chip, "mb": share.memory, "percent": share.percent, "policy": share.policy}
            for uid, (chip, share) in sorted(shares.items())
        }
    )


def listing_text(listed: Listing | None) -> str:
    """Pod to the ids that kubelet lists for it; empty where kubelet did not answer."""
    if listed is None:
        return ""
    return compact(
        {pod: ",".join(sorted(one for ids in lists for one in ids)) for pod, lists in sorted(listed.items())}
    )


class Reporter:
    """The ConfigMap of one node. A write is made against the version last seen, so that nothing that an
    operator changed meanwhile is lost.
    """

    def __init__(self, client: Client, node: str, between: float) -> None:
        self._client = client
        self._between = between
        self.name = DEVICE_INFO_PREFIX + node
        self._version = ""
        self._written: Content | None = None
        self._at: float | None = None

    def saw(self, version: str) -> bool:
        """Take the version that the watch showed; return whether it is not older than what is known."""
        if version_number(version) < version_number(self._version):
            # A watch can be late: we have written since.
            return False
        self._version = version or self._version
        return True

    def lost(self) -> None:
        """The ConfigMap is gone."""
        self._version = ""
        self._written = None

    def next_write(self, content: Content, monotonic: float) -> bool:
        since = float("inf") if self._at is None else monotonic - self._at
        return is_due(since, not content.same_as(self._written), self._between)

    async def write(self, content: Content, seconds: int, monotonic: float) -> bool:
        """Write now; False when the ConfigMap changed meanwhile. Raises ApiError or UnreachableError."""
        body: dict[str, Any] = {
            "metadata": {"labels": {NODE_REPORT_LABEL: "true"}},
            "data": content.data(seconds),
        }
        self._at = monotonic
        try:
            if self._version:
                body["metadata"]["resourceVersion"] = self._version
                body["data"].setdefault(UTILIZATION_KEY, None)
                answer = await self._client.patch(CONFIG_MAPS, KUBE_SYSTEM, self.name, body)
            else:
                body["metadata"] |= {"name": self.name, "namespace": KUBE_SYSTEM}
                answer = await self._client.create(CONFIG_MAPS, KUBE_SYSTEM, body)
        except ApiError as error:
            if error.status == 404:
                self._version = ""
            elif error.status != 409:
                raise
            return False
        self._written = content
        self._version = _version(answer)
        return True

    async def read(self) -> ConfigMapWire | None:
        """The ConfigMap as it is now; None where there is none."""
        stored = await self._client.find(CONFIG_MAPS, KUBE_SYSTEM, self.name, ConfigMapWire)
        # Whatever was known: versions start again where a cluster is restored from a backup.
        self._version = (stored.metadata.resource_version if stored is not None else None) or ""
        return stored


def map_watch(
    client: Client, clock: Clock, name: str, take: Callable[[ConfigMapWire | None], None]
) -> ObjectWatch[ConfigMapWire]:
    """A watch on one ConfigMap of kube-system; `take` gets None while there is none."""
    return ObjectWatch(
        client,
        f"ConfigMap {name}",
        CONFIG_MAPS.path(KUBE_SYSTEM),
        {"fieldSelector": f"metadata.name={name}"},
        ConfigMapWire,
        clock=clock,
        listed=lambda objects, _version: take(objects[0] if objects else None),
        changed=lambda kind, one: take(None if kind == "DELETED" else one),
    )


def _version(answer: bytes) -> str:
    """Empty where an answer cannot be read: the next write finds the ConfigMap and reads it first."""
    meta = object_name(msgspec.Raw(answer))
    return (meta.resource_version if meta is not None else None) or ""


def names_in(stored: ConfigMapWire | None, key: str) -> set[str]:
    """The chips of a list in the ConfigMap."""
    return {name.strip() for name in _text_in(stored, key).split(",") if name.strip()}


def _text_in(stored: ConfigMapWire | None, key: str) -> str:
    return ((stored.data if stored is not None else None) or {}).get(key) or ""


def doubtful_in(stored: ConfigMapWire | None) -> dict[str, list[str]]:
    """Chips that pods may have, by uid, as written before a restart."""
    written = readable(_text_in(stored, DOUBTFUL_CHIPS_KEY), dict[str, str], {})
    return {uid: [name for name in names.split(",") if name] for uid, names in written.items()}


def reasons_in(stored: ConfigMapWire | None) -> dict[str, list[Escalation]]:
    """Why chips were separated, as written before a restart."""
    document = readable(_text_in(stored, UPGRADE_REASON_KEY), dict[str, list[dict[str, int | str]]], {})
    result: dict[str, list[Escalation]] = {}
    for chip, reasons in document.items():
        for one in reasons:
            kind = str(one.get("upgrade_type", BY_AUTOFILL))
            code = str(one.get("fault_code", ""))
            at = one.get("upgrade_time", 0)
            try:
                number = 0 if kind == BY_AUTOFILL else int(code, 16)
            except ValueError:
                continue
            level = str(one.get("fault_level", ""))
            if level not in LEVELS:
                continue
            result.setdefault(chip, []).append(
                Escalation(number, level, kind, at if isinstance(at, int) else 0)
            )
    return result


async def describe_node(
    client: Client,
    node: str,
    card: str,
    chips: Sequence[Chip],
    driver_version: str,
    *,
    labels: bool,
    complete: bool,
    levels: Callable[[str], Mapping[int, Levels]],
) -> str:
    """Write annotations and missing labels of the Node where they differ; its internal address.

    While chips are missing (not `complete`), their number does not tell the board. `levels` of chips follow
    from the node's address.
    """
    stored = await client.get(NODES, None, node, NodeWire)
    meta = stored.metadata
    present = {key: value or "" for key, value in (meta.annotations or {}).items()}
    names = {chip.physical: name_of(card, chip.physical) for chip in chips}
    addresses = (stored.status.addresses if stored.status is not None else None) or ()
    internal = next((one.address for one in addresses if one.type == "InternalIP"), "")
    infos = base_device_infos(names, chips, with_logic_id=card == ASCEND910A5, levels=levels(internal))
    wanted = {
        key: value for key, value in node_annotations(card, chips, infos).items() if present.get(key) != value
    }
    existing = {key: value or "" for key, value in (meta.labels or {}).items()}
    missing = node_labels(card, chips, driver_version, existing) if labels else {}
    if not complete:
        missing.pop(ACCELERATOR_TYPE, None)
    if wanted or missing:
        body = {"metadata": {"annotations": wanted, "labels": missing}}
        await client.patch(NODES, None, node, body, subresource="status")
        _LOG.info("node described", annotations=sorted(wanted), labels=missing)
    return internal
