"""JSON texts that may be damaged: what they contain, or something else."""

from __future__ import annotations

from typing import TypeVar

import msgspec

Kind = TypeVar("Kind")
Other = TypeVar("Other")

#: What a decoder raises for a text that it cannot read.
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def readable(text: str | bytes | msgspec.Raw, kind: type[Kind], otherwise: Other) -> Kind | Other:
    """What a JSON text contains, or another value; `checking.decoded` says what is wrong."""
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE:
        return otherwise
