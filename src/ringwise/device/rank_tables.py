"""The configuration annotation of a pod, as this node's driver describes its chips (rule D3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ringwise.device.cards import ASCEND910A5, Chip, carries_configuration, lead, physical_id, resource_of
from ringwise.device.pods import NodePod
from ringwise.device.rank_levels import Levels
from ringwise.messages.rank_table import RankTableDevice, rank_table_fragment, rank_table_key

#: What a rank table says of a chip without an address, and of one that the driver does not list.
NO_ADDRESS, NO_SUPER_DEVICE = "-1", "-2"


class RankTables:
    """The configuration annotations of a node's pods, for the boards that have one."""

    def __init__(self, card: str) -> None:
        self._card = card
        self._inputs: tuple[Sequence[Chip], str, Mapping[int, Levels]] | None = None

    def know(self, chips: Sequence[Chip], node_ip: str, levels: Mapping[int, Levels]) -> None:
        """What the node is like now."""
        self._inputs = (chips, node_ip, levels)

    def of(self, pod: NodePod, mounted: Sequence[str]) -> tuple[str, str] | None:
        """Key and value for a pod with the mounted chips; None for boards whose pods have none.

        Before the node's address is known there is none, either: better than a wrong one.
        """
        if self._inputs is None:
            return None
        chips, node_ip, levels = self._inputs
        if not carries_configuration(self._card, chips):
            return None
        by_number = {chip.physical: chip for chip in chips}
        devices = []
        for number in map(physical_id, mounted):
            chip = by_number.get(number)
            devices.append(
                rank_table_device(self._card, number, chip.ip, chip.super_device, levels.get(number, ()))
                if chip is not None
                else rank_table_device(self._card, number)
            )
        first = lead(chips)
        return rank_table_key(resource_of(self._card)), rank_table_fragment(
            pod_name=pod.name,
            pod_uid=pod.uid,
            node_ip=node_ip,
            devices=devices,
            superpod=first.superpod,
            rack=first.rack if self._card == ASCEND910A5 else 0,
            server_index=str(first.server_index),
        )


def rank_table_device(
    card: str, number: int, ip: str = "", super_device: int | None = None, levels: Levels = ()
) -> RankTableDevice:
    """One chip in the rank table. A5 boards have no addresses there; elsewhere -1 says that there is none."""
    address = "" if card == ASCEND910A5 else ip or NO_ADDRESS
    identity = NO_SUPER_DEVICE if super_device is None else str(super_device)
    return RankTableDevice(number, address, identity, levels)


def same_devices(present: str, wanted: str) -> bool:
    """Whether two configuration annotations name the same devices and node with the same addresses."""
    try:
        one, other = json.loads(present), json.loads(wanted)
        return bool(one["devices"] == other["devices"] and one.get("host_ip") == other.get("host_ip"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False
