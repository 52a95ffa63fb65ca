"""YAML into plain values, event by event and with limits.

To build values from the parser's events is faster than the usual loader, and reading stops at the event that
exceeds a limit. Scalars are read like Kubernetes does: no dates, no base-60 numbers, keys are always text.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from ringwise.manifests.text.errors import ManifestError, one_line, shown
from ringwise.records import dataclass

#: Kubernetes objects have about 20 levels, vcjobs a few more.
MAX_DEPTH = 100
#: Values that aliases may add to one document, against exponential expansion.
MAX_ALIASED_VALUES = 100_000
#: Documents of one source; more than the objects of any cluster.
MAX_DOCUMENTS = 1_000_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CHUNK = 1 << 16
_SEPARATOR = re.compile(rb"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **{form: True for word in ("true", "yes", "on") for form in (word, word.title(), word.upper())},
    **{form: False for word in ("false", "no", "off") for form in (word, word.title(), word.upper())},
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o?[0-7]+|0x[0-9a-fA-F]+|0b[01]+", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)
#: Python rejects longer numbers.
_MAX_DIGITS = 400
_CORE = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class YamlValue:
    """One value of the stream. `item` is its index in a List, or None; `list_kind` the kind of the List."""

    document: int
    item: int | None
    value: object
    list_kind: str = ""


class _Stream:
    """Feeds the parser from memory and reports the position."""

    def __init__(self, data: mmap.mmap | bytes, start: int, advanced: Callable[[int], None]) -> None:
        self._data = data
        self._at = start
        self._advanced = advanced

    def read(self, size: int = _CHUNK) -> bytes:
        chunk = bytes(self._data[self._at : self._at + size])
        self._at += len(chunk)
        self._advanced(self._at)
        return chunk


class YamlStream:
    """The documents of one source. A broken one ends the stream with a ManifestError; `rest` says where the
    next one begins.
    """

    def __init__(
        self,
        name: str,
        data: mmap.mmap | bytes,
        advanced: Callable[[int], None] = lambda at: None,
        *,
        start: int = 0,
        document: int = 1,
    ) -> None:
        self._name = name
        self._data = data
        self._start = start
        #: The line of the error, from the start of the stream.
        self._broken: int | None = None
        self._document = document - 1
        self._first_line = bytes(data[:start]).count(b"\n") + 1
        self._events: Iterator[yaml.Event] = yaml.parse(_Stream(data, start, advanced), Loader=_LOADER)
        self._anchors: dict[str, tuple[object, int]] = {}
        self._aliased = 0
        self._values = 0
        self._scalars: dict[str, object] = {}

    def values(self) -> Iterator[YamlValue]:
        """Every document that is not empty, and the items of Lists one by one."""
        try:
            for event in self._events:
                if isinstance(event, yaml.DocumentStartEvent):
                    self._document += 1
                    if self._document > MAX_DOCUMENTS:
                        raise ManifestError(self._name, "", f"has more than {MAX_DOCUMENTS} documents")
                    self._anchors.clear()
                    self._scalars.clear()
                    self._aliased = 0
                    yield from self._top(next(self._events))
        except yaml.MarkedYAMLError as problem:
            mark = problem.problem_mark or problem.context_mark
            self._broken = mark.line if mark else None
            line = f" in line {mark.line + self._first_line}, column {mark.column + 1}" if mark else ""
            raise self._error(f"broken YAML{line}: {problem.problem or problem.context}") from None
        except yaml.YAMLError as problem:
            raise self._error(f"broken YAML: {one_line(str(problem).partition(chr(10))[0])}") from None
        except UnicodeDecodeError as problem:
            raise self._error(f"broken YAML: not UTF-8 text: {problem.reason}") from None

    def rest(self) -> tuple[int, int] | None:
        """After an error: where the document after the broken one begins, and its number."""
        if self._broken is None:
            return None
        at = self._start
        for _ in range(self._broken):
            at = self._data.find(b"\n", at) + 1
            if not at:
                return None
        found = _SEPARATOR.search(self._data, max(at, self._start + 1))
        return None if found is None else (found.start(), self._document + 1)

    def _top(self, event: yaml.Event) -> Iterator[YamlValue]:
        if not isinstance(event, yaml.MappingStartEvent) or event.anchor:
            value = self._value(event, 1)
            if value is not None:
                yield YamlValue(self._document, None, value)
            return
        mapping: dict[str, object] = {}
        waiting: list[YamlValue] = []
        is_list = False
        for key, inner in self._pairs(mapping):
            if key != "items" or not isinstance(inner, yaml.SequenceStartEvent) or inner.anchor:
                mapping[key] = self._value(inner, 2)
                continue
            is_list = True
            mapping[key] = None
            for item, element in enumerate(self._elements()):
                value = self._value(element, 3)
                kind = mapping.get("kind")
                if isinstance(kind, str) or (isinstance(value, dict) and "kind" in value):
                    yield YamlValue(self._document, item, value, kind if isinstance(kind, str) else "List")
                else:
                    waiting.append(YamlValue(self._document, item, value))
        if is_list:
            kind = mapping.get("kind")
            list_kind = kind if isinstance(kind, str) else "List"
            for late in waiting:
                yield YamlValue(late.document, late.item, late.value, list_kind)
        else:
            yield YamlValue(self._document, None, self._merged(mapping, event))

    def _value(self, event: yaml.Event, depth: int) -> object:
        self._values += 1
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = (value, 1)
            return value
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if depth > MAX_DEPTH:
            raise self._error(f"{self._line(event)}is nested more than {MAX_DEPTH} levels deep")
        before = self._values
        built: dict[str, object] | list[object]
        if isinstance(event, yaml.SequenceStartEvent):
            self._check_tag(event, "seq")
            built = [self._value(element, depth + 1) for element in self._elements()]
        elif isinstance(event, yaml.MappingStartEvent):
            self._check_tag(event, "map")
            pairs: dict[str, object] = {}
            for key, inner in self._pairs(pairs):
                pairs[key] = self._value(inner, depth + 1)
            built = self._merged(pairs, event)
        else:
            raise self._error(f"{self._line(event)}broken YAML")
        if event.anchor:
            self._anchors[event.anchor] = (built, self._values - before + 1)
        return built

    def _elements(self) -> Iterator[yaml.Event]:
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                return
            yield event

    def _pairs(self, mapping: dict[str, object]) -> Iterator[tuple[str, yaml.Event]]:
        """Keys with the first event of their value. A duplicate key is an error: one value would be lost."""
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                return
            if isinstance(event, yaml.ScalarEvent):
                key = event.value
                if event.anchor:
                    self._anchors[event.anchor] = (key, 1)
            else:
                aliased = self._alias(event) if isinstance(event, yaml.AliasEvent) else None
                if not isinstance(aliased, str):
                    raise self._error(f"{self._line(event)}a key must be plain text")
                key = aliased
            if key in mapping:
                raise self._error(f"{self._line(event)}the key {shown(key)} is repeated in one mapping")
            yield key, next(self._events)

    def _merged(self, mapping: dict[str, object], event: yaml.Event) -> dict[str, object]:
        """The mapping with the keys of the mappings in `<<` added; its own keys have precedence."""
        if "<<" not in mapping:
            return mapping
        named = mapping.pop("<<")
        for parent in named if isinstance(named, list) else [named]:
            if not isinstance(parent, dict):
                raise self._error(f"{self._line(event)}'<<' must name a mapping")
            for key, inherited in parent.items():
                mapping.setdefault(key, inherited)
        return mapping

    def _alias(self, event: yaml.AliasEvent) -> object:
        found = self._anchors.get(event.anchor or "")
        if found is None:
            raise self._error(f"{self._line(event)}the alias *{event.anchor} has no finished anchor")
        value, size = found
        self._values += size
        self._aliased += size
        if self._aliased > MAX_ALIASED_VALUES:
            raise self._error(f"{self._line(event)}aliases expand to more than {MAX_ALIASED_VALUES} values")
        return value

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        text: str = event.value
        if event.tag and event.tag != "!":
            return self._tagged(event, text)
        if not event.implicit[0]:
            return text
        try:
            return self._scalars[text]
        except KeyError:
            value = _resolved(text)
            if len(self._scalars) < 100_000:
                self._scalars[text] = value
            return value

    def _tagged(self, event: yaml.ScalarEvent, text: str) -> object:
        if event.tag == _CORE + "str":
            return text
        value = _resolved(text)
        kinds: dict[str, type | tuple[type, ...]] = {
            "int": int,
            "float": (int, float),
            "bool": bool,
            "null": type(None),
        }
        if isinstance(value, kinds.get((event.tag or "").removeprefix(_CORE), ())):
            return value
        raise self._error(f"{self._line(event)}the tag {shown(event.tag)} is not allowed here")

    def _check_tag(self, event: yaml.SequenceStartEvent | yaml.MappingStartEvent, allowed: str) -> None:
        if event.tag and event.tag != "!" and event.tag != _CORE + allowed:
            raise self._error(f"{self._line(event)}the tag {shown(event.tag)} is not allowed here")

    def _line(self, event: yaml.Event) -> str:
        """Of an event that cannot be read."""
        mark = event.start_mark
        self._broken = mark.line + 1 if mark else None
        return f"line {mark.line + self._first_line}: " if mark else ""

    def _error(self, message: str) -> ManifestError:
        return ManifestError(f"{self._name}: document {max(self._document, 1)}", "", message)


def _resolved(text: str) -> object:
    """The value of a scalar without quotes."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) > _MAX_DIGITS or text[0] not in "-+.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        if text[0] == "0" and len(text) > 1 and text[1] in "01234567":
            return int(text, 8)
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        letters = text.lower()
        return float(letters.replace(".", "") if "n" in letters else letters)
    return text
