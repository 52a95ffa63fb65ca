"""Splits JSON and YAML input into documents; the items of Lists are documents, too.

JSON is recognized by its first characters, whatever the name of the file. Documents are not decoded here: the
caller decodes each into the struct of its kind.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from ringwise.manifests.kinds import READABLE
from ringwise.manifests.text.checking import misfits, without_misfits
from ringwise.manifests.text.errors import ManifestError, invalid
from ringwise.manifests.text.json_stream import TOO_DEEP, JsonStream, JsonValue
from ringwise.manifests.text.sources import ManifestSource, opened
from ringwise.manifests.text.strings import shared
from ringwise.records import dataclass

#: Objects of one source. The largest clusters have some hundred thousand; a file of a billion `{}` must end.
MAX_OBJECTS = 2_000_000

#: Kinds that are read, with the current API versions of Kubernetes and Volcano.
API_VERSIONS = {"ConfigMap": "v1", **{kind: row.resource.version for (_, kind), row in READABLE.items()}}

Wire = TypeVar("Wire")
Progress = Callable[[int, int], None]

_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*[\"}]|\[\s*[\"{\[\]])")
_KIND_FIRST = re.compile(
    rb'\s*\{\s*"apiVersion"\s*:\s*"([^"\\]{1,200})"\s*,\s*"kind"\s*:\s*"([^"\\]{1,200})"'
)


_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}", re.ASCII)
_MAX_VERSION = 253
#: Maximum number of documents of one source that are not YAML: the parser restarts after each of them.
MAX_BROKEN = 20


class _Header(msgspec.Struct, rename="camel"):
    api_version: Any = None
    kind: Any = None


_HEADER = msgspec.json.Decoder(_Header)


@dataclass(frozen=True, slots=True)
class ManifestDocument:
    """One Kubernetes object, not decoded yet. `body` is its JSON bytes or the plain value of its YAML."""

    origin: str
    api_version: str
    kind: str
    body: object

    def decode(self, kind: type[Wire]) -> Wire | list[ManifestError]:
        """The struct, or all errors of the document."""
        try:
            if isinstance(self.body, memoryview):
                return cast(Wire, _decoder(cast(Any, kind)).decode(self.body))
            return msgspec.convert(self.body, kind)
        except (msgspec.MsgspecError, ValueError) as problem:
            return self._problems(kind, problem)
        except RecursionError:
            return [ManifestError(self.origin, "", TOO_DEEP)]

    def plain(self) -> dict[str, Any]:
        """The object as it was written."""
        body = msgspec.json.decode(self.body) if isinstance(self.body, memoryview) else self.body
        return body if isinstance(body, dict) else {}

    def decode_rest(self, kind: type[Wire]) -> Wire | None:
        """The struct of an object with errors, without the fields that do not fit; None where there is none.

        It is only read for further errors, so that all errors of an object are reported at once.
        """
        try:
            return msgspec.convert(without_misfits(self.plain(), kind), kind)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def _problems(self, kind: type[Wire], first: Exception) -> list[ManifestError]:
        try:
            found = misfits(self.plain(), kind)
            errors = [ManifestError(self.origin, field, message) for field, message in found]
        except (msgspec.MsgspecError, ValueError):
            errors = []
        return errors or [_decoding_error(self.origin, first)]


@lru_cache(maxsize=64)
def _decoder(kind: Any) -> Any:
    return msgspec.json.Decoder(kind)


def read_documents(
    source: ManifestSource, advanced: Callable[[int], None] = lambda at: None
) -> Iterator[ManifestDocument | ManifestError]:
    """The objects of a source. An unreadable object or YAML document gives an error, broken JSON ends it."""
    count = 0
    try:
        with opened(source) as data:
            for document in _documents(source, data, advanced):
                count += 1
                if count > MAX_OBJECTS:
                    raise ManifestError(source.name, "", f"contains more than {MAX_OBJECTS} objects")
                yield document
    except ManifestError as error:
        yield error
    except RecursionError:
        yield ManifestError(source.name, "", TOO_DEEP)


def _documents(
    source: ManifestSource, data: mmap.mmap | bytes, advanced: Callable[[int], None]
) -> Iterator[ManifestDocument | ManifestError]:
    start, number = 0, 1
    # The name counts only where the first characters are neither JSON nor YAML.
    if _JSON.match(data) is not None or (source.is_json_by_name and len(data) > 0):
        stream = JsonStream(source.name, data, advanced)
        for value in stream.values():
            yield _from_json(source.name, value)
        if stream.rest is None:
            return
        start, number = stream.rest
    # Imported here: JSON needs no YAML parser.
    from ringwise.manifests.text.yaml_stream import YamlStream

    for _ in range(MAX_BROKEN):
        documents = YamlStream(source.name, data, advanced, start=start, document=number)
        try:
            for entry in documents.values():
                origin = _origin(source.name, entry.document, entry.item)
                yield _from_plain(origin, entry.value, entry.list_kind)
        except ManifestError as error:
            rest = documents.rest()
            if rest is None:
                raise
            yield error
            start, number = rest
        else:
            return
    raise ManifestError(source.name, "", f"has {MAX_BROKEN} invalid documents; reading stopped here")


def _origin(name: str, document: int, item: int | None) -> str:
    place = f"{name}: document {document}"
    return place if item is None else f"{place}: items[{item}]"


def _from_json(name: str, value: JsonValue) -> ManifestDocument | ManifestError:
    origin = _origin(name, value.document, value.item)
    raw = value.raw
    try:
        str(raw, "utf-8")
    except UnicodeDecodeError as problem:
        return ManifestError(origin, "", f"is not UTF-8 text: {problem.reason} at byte {problem.start}")
    match = _KIND_FIRST.match(raw)
    if match:
        return _document(origin, match[1].decode(), match[2].decode(), raw, value.list_kind)
    if raw[0] != ord("{"):
        return _document(origin, None, None, None, "")
    try:
        header = _HEADER.decode(raw)
    except (msgspec.MsgspecError, ValueError) as problem:
        return _decoding_error(origin, problem)
    return _document(origin, header.api_version, header.kind, raw, value.list_kind)


def _from_plain(origin: str, value: object, list_kind: str) -> ManifestDocument | ManifestError:
    if not isinstance(value, dict):
        return _document(origin, None, None, None, "")
    return _document(origin, value.get("apiVersion"), value.get("kind"), value, list_kind)


def _document(
    origin: str, api_version: object, kind: object, body: object, list_kind: str
) -> ManifestDocument | ManifestError:
    if body is None:
        return ManifestError(origin, "", "must be an object with apiVersion and kind")
    if not isinstance(kind, str | None):
        return ManifestError(origin, "kind", invalid(kind, "must be a string"))
    if not isinstance(api_version, str | None):
        return ManifestError(origin, "apiVersion", invalid(api_version, "must be a string"))
    if not kind and list_kind.endswith("List") and list_kind != "List":
        # The API server does not repeat the kind in the items of a typed list.
        kind = list_kind.removesuffix("List")
        api_version = api_version or API_VERSIONS.get(kind, "v1")
    if not kind:
        return ManifestError(origin, "kind", "Required value: such as Pod, Node or Job")
    if list_kind and kind.endswith("List"):
        return ManifestError(origin, "kind", "a List inside a List is not supported")
    if not api_version:
        hint = f": a {kind} has {API_VERSIONS[kind]}" if kind in API_VERSIONS else ""
        return ManifestError(origin, "apiVersion", f"Required value{hint}")
    if not _KIND.fullmatch(kind):
        return ManifestError(origin, "kind", invalid(kind, "must be a name like Pod"))
    if len(api_version) > _MAX_VERSION:
        return ManifestError(origin, "apiVersion", invalid(api_version, "must be a version like v1"))
    expected = API_VERSIONS.get(kind, api_version)
    if expected != api_version and ("/" not in api_version or "/" not in expected):
        return ManifestError(origin, "apiVersion", invalid(api_version, f"a {kind} has {expected}"))
    return ManifestDocument(origin, shared(api_version), shared(kind), body)


def _decoding_error(origin: str, problem: Exception) -> ManifestError:
    """The decoder's error as a ManifestError: `... - at `$.spec.minMember`` names the field."""
    message, _, path = str(problem).partition(" - at `$")
    if isinstance(problem, UnicodeDecodeError):
        return ManifestError(origin, "", f"is not UTF-8 text: {problem.reason}")
    message = message.replace("`", "")
    field = path.rstrip("`").lstrip(".")
    return ManifestError(origin, field, f"cannot be read: {message[:1].lower()}{message[1:]}")
