"""How bytes of the API become sights: structs, or bytes that are not decoded yet.

One bad object must harm no other, so whatever does not fit is looked at once more, piece by piece.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar, cast

import msgspec

from ringwise.kube.watch.facts import Fact, Facts
from ringwise.kubeclient.client import Page, UnreachableError
from ringwise.manifests.errors import Findings
from ringwise.manifests.wire import Meta, Trimmed

Wire = TypeVar("Wire")
Object = TypeVar("Object")


class Change(msgspec.Struct, Generic[Object]):
    """One line of a watch."""

    type: str
    object: Object


class SeenMeta(Meta):
    resource_version: str | None = None


class _Plain(Trimmed):
    """Of an object that does not fit its struct at least the name may be readable."""

    metadata: SeenMeta | None = None


_BARE = msgspec.json.Decoder(Page[msgspec.Raw])
_CHANGE = msgspec.json.Decoder(Change[msgspec.Raw])
_PLAIN = msgspec.json.Decoder(_Plain)
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def bare_page(answer: bytes) -> Page[Any]:
    """A page whose items are not decoded yet, so that one bad item harms no other."""
    try:
        return _BARE.decode(answer)
    except _UNREADABLE as problem:
        raise UnreachableError(f"a list cannot be read: {problem}", maybe_done=False) from None


def bare_change(line: bytes) -> Change[Any]:
    """A line of a watch; its object is not decoded yet."""
    try:
        return _CHANGE.decode(line)
    except _UNREADABLE as problem:
        raise UnreachableError(f"a line of the watch cannot be read: {problem}", maybe_done=False) from None


def meta_of(sight: object) -> SeenMeta | None:
    """Name and version of an object, decoded or not; None when not even that can be read."""
    if not isinstance(sight, msgspec.Raw):
        found: SeenMeta | None = getattr(sight, "metadata", None)
        return found
    try:
        return _PLAIN.decode(sight).metadata
    except _UNREADABLE:
        return None


class Decoding(ABC, Generic[Wire]):
    """Reads one struct and hands it on; a misfit is a finding."""

    def __init__(self, shape: type[Wire]) -> None:
        self._decoder: msgspec.json.Decoder[Wire] = msgspec.json.Decoder(shape)

    def page(self, answer: bytes) -> Page[Any]:
        return bare_page(answer)

    def change(self, line: bytes) -> Change[Any]:
        return bare_change(line)

    def read(self, sight: object, found: Findings) -> Facts | None:
        if not isinstance(sight, msgspec.Raw):
            return self.facts(cast(Wire, sight), found)
        try:
            wire = self._decoder.decode(sight)
        except _UNREADABLE as problem:
            found.wrong("", str(problem).replace("`", ""))
            return None
        return self.facts(wire, found)

    @abstractmethod
    def facts(self, wire: Wire, found: Findings) -> Facts | None: ...

    def forget(self, key: str) -> None:
        """Nothing is kept beside the facts."""


class DecodingAtOnce(Decoding[Wire]):
    """For kinds with many objects: everything is decoded in one go, and once more only if that fails."""

    def __init__(self, shape: type[Wire]) -> None:
        super().__init__(shape)
        # The type is known at run time only; a checker cannot follow.
        of_shape: Any = shape
        self._pages: msgspec.json.Decoder[Page[Any]] = msgspec.json.Decoder(Page[of_shape])
        self._changes: msgspec.json.Decoder[Change[Any]] = msgspec.json.Decoder(Change[of_shape])

    def page(self, answer: bytes) -> Page[Any]:
        try:
            return self._pages.decode(answer)
        except _UNREADABLE:
            return bare_page(answer)

    def change(self, line: bytes) -> Change[Any]:
        try:
            return self._changes.decode(line)
        except _UNREADABLE:
            return bare_change(line)


def only(key: str, fact: Fact, found: Findings) -> Facts | None:
    return None if found.errors else ((key, fact),)
