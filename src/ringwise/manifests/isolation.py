"""Chips and nodes that an operator took out of use: the ConfigMap `ringwise-isolation`.

A data key is the node's name, or node and chip with an underscore between (neither has one). The value says
who did it, when and why.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ringwise.manifests.chips import chip_of
from ringwise.state.model import Isolation


class _Entry(msgspec.Struct):
    by: str = ""
    at: str = ""
    reason: str = ""


def key_of(node: str, chip: str = "") -> str:
    return f"{node}_{chip}" if chip else node


def value_of(by: str, at: str, reason: str) -> str:
    return msgspec.json.encode(_Entry(by, at, reason)).decode()


def read_isolations(data: Mapping[str, str | None]) -> list[Isolation]:
    """All entries. One whose value cannot be read still isolates: its key says what."""
    found = []
    for key, value in sorted(data.items()):
        node, _, chip = key.partition("_")
        try:
            entry = msgspec.json.decode(value or "{}", type=_Entry)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            entry = _Entry(reason=value or "")
        found.append(Isolation(node, chip, entry.by, entry.at, entry.reason, chip_of(chip)))
    return found


def isolated_chips(isolations: list[Isolation], node: str, chips: tuple[str, ...]) -> dict[str, Isolation]:
    """The chips of a node that are isolated, by themselves or with the node."""
    found: dict[str, Isolation] = {}
    for one in isolations:
        if one.node == node:
            found.update({chip: one for chip in chips if one.chip in ("", chip)})
    return found
