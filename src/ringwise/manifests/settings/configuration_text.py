"""Finds what a file sets: a configuration of the scheduler, of the controller.

A file is one of the first two as it is, or Kubernetes manifests with ConfigMaps that carry them.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ringwise.grammar import counted
from ringwise.manifests.text.errors import (
    MAX_ERRORS,
    DocumentError,
    Findings,
    ManifestError,
    document_error,
    invalid,
    shown,
)
from ringwise.manifests.text.yaml_stream import YamlFile, read_map, read_yaml
from ringwise.records import dataclass
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import (
    CONTROLLER_CONFIG_KEY,
    SCHEDULER_CONFIG_KEY,
    SCHEDULER_CONFIG_KEY_CI,
)

#: The key of the controller's configuration that says how HyperNodes are made from labels of nodes.
DISCOVERY_KEY = "networkTopologyDiscovery"
#: The keys under which a ConfigMap carries the file.
CONFIGMAP_KEYS = (SCHEDULER_CONFIG_KEY, SCHEDULER_CONFIG_KEY_CI)


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """What a line of a file does."""

    line: int
    #: What stands there: `plugin gang`, `overcommit-factor: 1.2`.
    subject: str
    #: works, no effect, warning or error.
    result: str
    effect: str


def error_line(problem: ManifestError) -> CheckedLine:
    return CheckedLine(problem.line or 0, problem.field, "error", problem.message)


class SettingsReader:
    """One reading of one document: its errors, its warnings, and what each line does."""

    def __init__(self, file: YamlFile) -> None:
        self._file = file
        self._issues = Findings(file.origin, file.line_of)
        self._warnings: list[ManifestError] = []
        #: What was understood, in the order in which it was read.
        self.lines: list[CheckedLine] = []

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(map(str, sorted(self._warnings, key=lambda warning: warning.line or 0)))

    def _warn(self, place: str, message: str, what: str = "") -> None:
        if len(self._warnings) < MAX_ERRORS:
            line = self._file.line_of(place)
            self._warnings.append(ManifestError(self._file.origin, place, message, line))
            self._line(place, what or place, "warning", message)

    def _line(self, place: str, what: str, verdict: str, effect: str) -> None:
        self.lines.append(CheckedLine(self._file.line_of(place), what, verdict, effect))


@dataclass(frozen=True, slots=True)
class SettingsText:
    """A text with settings: the whole file, or what is under a key of a ConfigMap in it."""

    text: bytes | str
    origin: str
    #: The line of the file that the text begins with, or 1 where lines of the text are not lines of the file.
    first_line: int = 1
    #: The line of the file that it is in.
    line: int = 1


@dataclass(slots=True)
class SettingsFile:
    origin: str
    documents: int
    schedulers: list[SettingsText] = field(default_factory=list)
    controllers: list[SettingsText] = field(default_factory=list)
    #: Kinds of the manifests, and keys of ConfigMaps, for a message.
    kinds: set[str] = field(default_factory=set)
    keys: list[str] = field(default_factory=list)

    @property
    def without_scheduler(self) -> bool:
        """Whether it sets something, and nothing for the scheduler."""
        return not self.schedulers and bool(self.controllers)

    def scheduler(self) -> YamlFile:
        """The configuration of the scheduler, the only one in the file. Raises `DocumentError`."""
        if len(self.schedulers) != 1:
            raise self._not_one()
        text = self.schedulers[0]
        result = read_map(text.text, text.origin, text.first_line)
        if result is None:
            raise document_error(text.origin, "is empty; must be one scheduler configuration", text.line)
        return result

    def _not_one(self) -> DocumentError:
        if self.schedulers:
            lines = ", ".join(str(one.line) for one in self.schedulers)
            count = len(self.schedulers)
            return document_error(self.origin, f"has {count} configurations (lines {lines}); must have one")
        if not self.kinds:
            has = f"has {counted(self.documents, 'document')}" if self.documents else "is empty"
            return document_error(self.origin, f"{has}; must be one scheduler configuration")
        allowed = (*CONFIGMAP_KEYS, CONTROLLER_CONFIG_KEY)
        near = next((hint for key in self.keys if (hint := did_you_mean(key, allowed))), "")
        return document_error(
            self.origin,
            f"has no ConfigMap with the key {SCHEDULER_CONFIG_KEY} among the objects of kind "
            f"{', '.join(sorted(map(shown, self.kinds)))}{near}",
        )


def find_settings(text: bytes | str, origin: str) -> SettingsFile:
    """Raises `DocumentError` where the text is not YAML."""
    documents = read_yaml(text, origin)
    result = SettingsFile(origin, len(documents))
    manifests = [one for one in documents if "kind" in mapping(one.value)]
    if not manifests and len(documents) == 1:
        of_controller = any(
            key == DISCOVERY_KEY or did_you_mean(key[:60], (DISCOVERY_KEY,))
            for key in mapping(documents[0].value)
        )
        (result.controllers if of_controller else result.schedulers).append(SettingsText(text, origin))
    for manifest in manifests:
        _find_in(manifest, result)
    return result


def _find_in(manifest: YamlFile, settings: SettingsFile) -> None:
    kind = str(manifest.value["kind"])
    settings.kinds.add(kind)
    if kind != "ConfigMap":
        return
    data = mapping(manifest.value.get("data"))
    settings.keys += data
    settings.schedulers += [_text_under(manifest, data, key) for key in CONFIGMAP_KEYS if key in data]
    if CONTROLLER_CONFIG_KEY in data:
        settings.controllers.append(_text_under(manifest, data, CONTROLLER_CONFIG_KEY))


def _text_under(manifest: YamlFile, data: dict[str, Any], key: str) -> SettingsText:
    line = manifest.positions.line(data, key) or manifest.first_line
    if not isinstance(data[key], str):
        raise document_error(manifest.origin, f"data[{key}]: {invalid(data[key], 'must be a string')}", line)
    scalar = manifest.positions.scalar(data, key)
    if scalar is not None and scalar.style == "|" and scalar.start_mark is not None:
        # Every line of a literal block is a line of the file; the block starts below its mark.
        return SettingsText(data[key], manifest.origin, scalar.start_mark.line + 2, line)
    return SettingsText(data[key], f"{manifest.origin}: {key}", 1, line)


def mapping(value: object) -> dict[str, Any]:
    """The value if it is a map, else an empty one."""
    return value if isinstance(value, dict) else {}
