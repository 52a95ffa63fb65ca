"""YAML into plain values, event by event and with limits.

To build values from the parser's events is faster than the usual loader, and reading stops at the event that
exceeds a limit. Scalars are read like Kubernetes does: no dates, no base-60 numbers, keys are always text.

Of a file that people write by hand, `read_yaml` also keeps where each field is and how it is written.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from ringwise.manifests.text.errors import ManifestError, document_error, invalid, one_line, shown
from ringwise.records import dataclass

#: Kubernetes objects have about 20 levels, vcjobs a few more.
MAX_DEPTH = 100
#: Values that aliases may add to one document, against exponential expansion.
MAX_ALIASED_VALUES = 100_000
#: Documents of one source; more than the objects of any cluster.
MAX_DOCUMENTS = 1_000_000
#: A file that people write by hand has a few pages.
MAX_BYTES = 1 << 20

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
    line: int = 1


class Positions:
    """The line of every field and item of a file, and its value as it is written."""

    def __init__(self) -> None:
        #: By the identity of the map or list, and the key or index in it.
        self._places: dict[tuple[int, str | int], tuple[int, yaml.Event]] = {}
        #: Maps that are in no value because they were merged into others: their identities stay theirs.
        self.merged: list[object] = []

    def put(self, within: object, key: str | int, line: int, value: yaml.Event) -> None:
        self._places[id(within), key] = line, value

    def inherit(self, within: object, key: str, parent: object) -> None:
        if (id(parent), key) in self._places:
            self._places.setdefault((id(within), key), self._places[id(parent), key])

    def line(self, within: object, key: str | int) -> int | None:
        place = self._places.get((id(within), key))
        return None if place is None else place[0]

    def scalar(self, within: object, key: str | int) -> yaml.ScalarEvent | None:
        place = self._places.get((id(within), key))
        return place[1] if place is not None and isinstance(place[1], yaml.ScalarEvent) else None


@dataclass(frozen=True, slots=True)
class YamlFile:
    """One document of a file that people write by hand, or one item of a List in it."""

    origin: str
    value: Any
    first_line: int
    positions: Positions

    def line_of(self, field: str) -> int:
        """The line of the field with this path, or of the last part of the path that is there."""
        line, value = self.first_line, self.value
        while field:
            key, field = _next_step(value, field)
            position = None if key is None else self.positions.line(value, key)
            if position is None:
                break
            line, value = position, value[key]
        return line

    def written(self, within: dict[str, Any], key: str) -> str | None:
        """The text of a scalar; of an alias what it stands for; None: it is a map, a list or nothing."""
        value = within.get(key)
        if value is None or isinstance(value, (dict, list)):
            return None
        scalar = self.positions.scalar(within, key)
        return str(scalar.value) if scalar is not None else shown(value).strip('"')


def _next_step(value: object, field: str) -> tuple[Any, str]:
    """The first key or index in the path of a field, None where the value does not have it; and the rest."""
    step = re.match(r"\[([0-9]+)\]" if isinstance(value, list) else r"\.?([^.\[]+)", field)
    if isinstance(value, list) and step is not None:
        return int(step[1]), field[step.end() :]
    if step is not None and isinstance(value, dict) and step[1] in value:
        return step[1], field[step.end() :]
    # Keys with dots are written in brackets.
    ends = (at for at, sign in enumerate(field) if sign == "]" and isinstance(value, dict))
    end = next((at for at in ends if field[1:at] in value), -1)  # type: ignore[operator]
    return (field[1:end], field[end + 1 :]) if end > 0 else (None, "")


def read_yaml(data: bytes | str, origin: str, first_line: int = 1) -> list[YamlFile]:
    """The documents that are not empty. Raises DocumentError: it is too large, or broken."""
    if len(data) > MAX_BYTES:
        raise document_error(origin, f"must be at most {MAX_BYTES >> 20} MiB")
    positions = Positions()
    encoded = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    stream = YamlStream(origin, encoded, first_line=first_line, positions=positions)
    try:
        return [YamlFile(origin, one.value, one.line, positions) for one in stream.values()]
    except ManifestError as error:
        raise document_error(origin, error.message, error.line) from None


def read_map(data: bytes | str, origin: str, first_line: int = 1) -> YamlFile | None:
    """A text with one map and nothing else; None if it is empty. Raises DocumentError."""
    documents = read_yaml(data, origin, first_line)
    if len(documents) > 1:
        raise document_error(origin, f"must have one document, got {len(documents)}")
    if not documents:
        return None
    if not isinstance(documents[0].value, dict):
        raise document_error(
            origin, invalid(documents[0].value, "must be an object"), documents[0].first_line
        )
    return documents[0]


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
        first_line: int = 1,
        positions: Positions | None = None,
    ) -> None:
        self._name = name
        self._data = data
        self._start = start
        #: The line of the error, from the start of the stream.
        self._broken: int | None = None
        self._document = document - 1
        self._first_line = bytes(data[:start]).count(b"\n") + first_line
        self._positions = positions
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
            column = f" in column {mark.column + 1}" if mark else ""
            message = f"invalid YAML{column}: {problem.problem or problem.context}"
            if message.endswith(("<document start>", "expected key", "'-' indicator")):
                message += "; keys of one map and items of one list must begin in one column"
            raise self._error(message, mark.line if mark else None) from None
        except yaml.YAMLError as problem:
            before = bytes(self._data[self._start :][: getattr(problem, "position", 0)])
            message = f"invalid YAML: {one_line(str(problem).partition(chr(10))[0])}"
            raise self._error(message, before.count(b"\n")) from None
        except UnicodeDecodeError as problem:
            raise self._error(f"invalid YAML: not UTF-8 text: {problem.reason}") from None

    def rest(self) -> tuple[int, int] | None:
        """After an error: where the document after the broken one begins, and its number."""
        if self._broken is None:
            return None
        at = self._start
        for _ in range(self._broken):
            at = self._data.find(b"\n", at) + 1
            if not at:
                return None
        match = _SEPARATOR.search(self._data, max(at, self._start + 1))
        return None if match is None else (match.start(), self._document + 1)

    def _top(self, event: yaml.Event) -> Iterator[YamlValue]:
        if not isinstance(event, yaml.MappingStartEvent) or event.anchor:
            value = self._value(event, 1)
            if value is not None:
                yield YamlValue(self._document, None, value, line=self._line(event))
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
                    list_kind = kind if isinstance(kind, str) else "List"
                    yield YamlValue(self._document, item, value, list_kind, self._line(element))
                else:
                    waiting.append(YamlValue(self._document, item, value, line=self._line(element)))
        if is_list:
            kind = mapping.get("kind")
            list_kind = kind if isinstance(kind, str) else "List"
            for late in waiting:
                yield YamlValue(late.document, late.item, late.value, list_kind, late.line)
        else:
            yield YamlValue(self._document, None, self._merged(mapping, event), line=self._line(event))

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
            raise self._unreadable(event, f"is nested more than {MAX_DEPTH} levels deep")
        before = self._values
        built: dict[str, object] | list[object]
        if isinstance(event, yaml.SequenceStartEvent):
            self._check_tag(event, "seq")
            built = []
            for element in self._elements():
                if self._positions is not None:
                    self._positions.put(built, len(built), self._line(element), element)
                built.append(self._value(element, depth + 1))
        elif isinstance(event, yaml.MappingStartEvent):
            self._check_tag(event, "map")
            pairs: dict[str, object] = {}
            for key, inner in self._pairs(pairs):
                pairs[key] = self._value(inner, depth + 1)
            built = self._merged(pairs, event)
        else:
            raise self._unreadable(event, "invalid YAML")
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
                    raise self._unreadable(event, "a key must be plain text")
                key = aliased
            if key in mapping:
                raise self._unreadable(event, f"the key {shown(key)} is repeated in one mapping")
            value = next(self._events)
            if self._positions is not None:
                self._positions.put(mapping, key, self._line(event), value)
            yield key, value

    def _merged(self, mapping: dict[str, object], event: yaml.Event) -> dict[str, object]:
        """The mapping with the keys of the mappings in `<<` added; its own keys have precedence."""
        if "<<" not in mapping:
            return mapping
        named = mapping.pop("<<")
        for parent in named if isinstance(named, list) else [named]:
            if not isinstance(parent, dict):
                raise self._unreadable(event, "'<<' must refer to a mapping")
            for key, inherited in parent.items():
                if self._positions is not None:
                    self._positions.merged.append(named)
                    self._positions.inherit(mapping, key, parent)
                mapping.setdefault(key, inherited)
        return mapping

    def _alias(self, event: yaml.AliasEvent) -> object:
        anchor = self._anchors.get(event.anchor or "")
        if anchor is None:
            raise self._unreadable(event, f"anchor *{event.anchor} is not defined before its alias")
        value, size = anchor
        self._values += size
        self._aliased += size
        if self._aliased > MAX_ALIASED_VALUES:
            raise self._unreadable(event, f"aliases expand to more than {MAX_ALIASED_VALUES} values")
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
        raise self._unreadable(event, f"the tag {shown(event.tag)} is not allowed here")

    def _check_tag(self, event: yaml.SequenceStartEvent | yaml.MappingStartEvent, allowed: str) -> None:
        if event.tag and event.tag != "!" and event.tag != _CORE + allowed:
            raise self._unreadable(event, f"the tag {shown(event.tag)} is not allowed here")

    def _unreadable(self, event: yaml.Event, message: str) -> ManifestError:
        line = self._line(event)
        self._broken = line - self._first_line + 1
        return self._error(message, line - self._first_line)

    def _line(self, event: yaml.Event) -> int:
        return self._first_line + (event.start_mark.line if event.start_mark else 0)

    def _error(self, message: str, line: int | None = None) -> ManifestError:
        where = f"{self._name}: document {max(self._document, 1)}"
        return ManifestError(where, "", message, None if line is None else line + self._first_line)


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
