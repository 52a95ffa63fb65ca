"""From the bytes of a configuration file to YAML nodes with their line numbers.

A scheduler reads this file while it runs, so a hostile one must not cost it time or
memory: size, depth and what aliases expand to are limited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import yaml

from ringwise.framework.arguments import Value, quoted
from ringwise.grammar import counted
from ringwise.manifests.text.errors import ConfigurationError, ConfigurationProblem
from ringwise.records import dataclass
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import (
    CONTROLLER_CONFIG_KEY,
    LIMITS_CONFIG_MAP,
    LIMITS_KEY,
    SCHEDULER_CONFIG_KEY,
    SCHEDULER_CONFIG_KEY_CI,
)

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32
MAX_NODES = 50_000
#: A reading stops after this many errors: a hostile text could cause any number.
MAX_PROBLEMS = 100
#: The key of the controller's configuration that says how HyperNodes are made from labels of nodes.
DISCOVERY_KEY = "networkTopologyDiscovery"
#: The keys under which a ConfigMap carries the file.
CONFIGMAP_KEYS = (SCHEDULER_CONFIG_KEY, SCHEDULER_CONFIG_KEY_CI)

_SCALARS = yaml.SafeLoader("")
_PLAIN_SCALARS: Mapping[str, Callable[[Any], Value]] = {
    "tag:yaml.org,2002:bool": _SCALARS.construct_yaml_bool,
    "tag:yaml.org,2002:int": _SCALARS.construct_yaml_int,
    "tag:yaml.org,2002:float": _SCALARS.construct_yaml_float,
    "tag:yaml.org,2002:null": _SCALARS.construct_yaml_null,
}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Document:
    """The root node of a configuration, and what turns its lines into lines of the file."""

    origin: str
    root: yaml.MappingNode
    first_line: int = 1

    def line_of(self, node: yaml.Node) -> int:
        return self.first_line + int(node.start_mark.line)


def open_configuration(text: bytes | str, origin: str) -> Document:
    """The configuration in `text`: a bare file, or manifests with one ConfigMap that carries it."""
    roots = _compose(_decoded(text, origin), origin, first_line=1)
    if not roots:
        raise _error(origin, None, "the file is empty; allowed: a scheduler configuration")
    manifests = [manifest for root in roots for manifest in _manifests(root)]
    if not manifests and len(roots) == 1:
        return Document(origin, _mapping(roots[0], origin, first_line=1))
    if not manifests:
        raise _error(
            origin, None, f"holds {counted(roots, 'document')}; allowed: one scheduler configuration"
        )
    return _from_config_map(manifests, origin)


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """What a line of a file does."""

    line: int
    #: What stands there: `plugin gang`, `overcommit-factor: 1.2`.
    what: str
    #: works, no effect, warning or error.
    verdict: str
    effect: str


def error_line(problem: ConfigurationProblem) -> CheckedLine:
    return CheckedLine(problem.line or 0, problem.place, "error", problem.message)


@dataclass(frozen=True, slots=True)
class WrittenQueue:
    """A Queue among manifests: its name and its annotations, with their lines."""

    name: str
    annotations: Mapping[str, tuple[str, int]]
    #: Those that are written without quotes and so are no text: the API server refuses the Queue.
    no_text: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class OtherSettings:
    """What is set besides the configuration of the scheduler: in ConfigMaps, each with the line at which its
    text begins, and in Queues.
    """

    #: Of ConfigMaps `ringwise-limits`.
    limits: tuple[tuple[str, int], ...] = ()
    queues: tuple[WrittenQueue, ...] = ()
    #: Configurations of the controller.
    controllers: tuple[tuple[str, int], ...] = ()
    #: Whether there is a configuration of the scheduler with them.
    configured: bool = True

    @property
    def alone(self) -> bool:
        return not self.configured and bool(self.limits or self.queues or self.controllers)


def other_settings(text: bytes | str, origin: str) -> OtherSettings:
    """Nothing where the text is neither a list of manifests nor a configuration of the controller."""
    try:
        decoded = _decoded(text, origin)
        roots = _compose(decoded, origin, first_line=1)
    except ConfigurationError:
        return OtherSettings()
    manifests = [manifest for root in roots for manifest in _manifests(root)]
    if not manifests and len(roots) == 1 and _is_of_controller(roots[0]):
        return OtherSettings(controllers=((decoded, 1),), configured=False)
    limits: list[tuple[str, int]] = []
    queues: list[WrittenQueue] = []
    controllers: list[tuple[str, int]] = []
    configured = False
    for manifest in manifests:
        meta = _entry(manifest, "metadata")
        name = _entry(meta, "name") if meta is not None else None
        named = str(name.value) if isinstance(name, yaml.ScalarNode) else ""
        if _kind(manifest) == "Queue" and meta is not None:
            queues.append(_written_queue(named, _entry(meta, "annotations")))
        elif _kind(manifest) == "ConfigMap" and named == LIMITS_CONFIG_MAP:
            missing = (f"{LIMITS_KEY}: missing", 1 + int(manifest.start_mark.line))
            limits.append(_text_under(manifest, LIMITS_KEY) or missing)
        elif _kind(manifest) == "ConfigMap":
            data = _entry(manifest, "data")
            configured = configured or any(_entry(data, key) for key in CONFIGMAP_KEYS if data is not None)
            if (found := _text_under(manifest, CONTROLLER_CONFIG_KEY)) is not None:
                controllers.append(found)
    return OtherSettings(tuple(limits), tuple(queues), tuple(controllers), configured)


def _is_of_controller(root: yaml.Node) -> bool:
    """Whether it has the key of the controller's configuration, or one that is likely meant to be it."""
    entries: list[tuple[yaml.Node, yaml.Node]] = root.value if isinstance(root, yaml.MappingNode) else []
    keys = [str(key.value)[:60] for key, _ in entries]
    return any(key == DISCOVERY_KEY or did_you_mean(key, (DISCOVERY_KEY,)) for key in keys)


def _text_under(manifest: yaml.MappingNode, key: str) -> tuple[str, int] | None:
    """The text under a key of a ConfigMap, and the line at which it begins."""
    data = _entry(manifest, "data")
    value = _entry(data, key) if data is not None else None
    if not isinstance(value, yaml.ScalarNode):
        return None
    below = value.style == "|"
    return str(value.value), 1 + int(value.start_mark.line) + below


def _written_queue(name: str, node: yaml.Node | None) -> WrittenQueue:
    entries = node.value if isinstance(node, yaml.MappingNode) else []
    scalars = {str(key.value): value for key, value in entries if isinstance(value, yaml.ScalarNode)}
    return WrittenQueue(
        name,
        {key: (str(value.value), 1 + int(value.start_mark.line)) for key, value in scalars.items()},
        [key for key, value in scalars.items() if value.tag in _PLAIN_SCALARS and not _is_null(value)],
    )


def open_text(text: bytes | str, origin: str, what: str, keys: str, first_line: int = 1) -> Document | None:
    """A text that holds one map and nothing else; None where it is empty."""
    roots = _compose(_decoded(text, origin), origin, first_line)
    if len(roots) > 1:
        raise _error(origin, None, f"holds {counted(roots, 'document')}; allowed: one, with {what}")
    return Document(origin, _mapping(roots[0], origin, first_line, keys), first_line) if roots else None


def _decoded(text: bytes | str, origin: str) -> str:
    if len(text) > MAX_BYTES:
        raise _error(origin, None, f"is larger than a configuration can be; allowed: up to {MAX_BYTES} bytes")
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise _error(origin, line, "is not text; allowed: UTF-8") from None


def _compose(text: str, origin: str, first_line: int) -> list[yaml.Node]:
    try:
        _check_depth(text, origin, first_line)
        roots = [root for root in yaml.compose_all(text, Loader=_LOADER) if root is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = first_line + int(mark.line) if mark is not None else None
        what = error.problem or error.context or "it cannot be read"
        raise _error(
            origin,
            line,
            f"is not valid YAML ({what}); allowed: keys of one map and items of one list in one column",
        ) from None
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        line = first_line + text.count("\n", 0, position)
        raise _error(
            origin, line, "is not valid YAML (a character that no text has); allowed: text"
        ) from None
    for root in roots:
        _check_expansion(root, origin, first_line)
    return [root for root in roots if not _is_null(root)]


def _check_depth(text: str, origin: str, first_line: int) -> None:
    """Runs ahead of composing, which recurses."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                mark = event.start_mark
                line = first_line + int(mark.line) if mark is not None else None
                raise _error(origin, line, f"is nested too deeply; allowed: {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_expansion(root: yaml.Node, origin: str, first_line: int) -> None:
    """Counts nodes as if every alias were expanded, without expanding it."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        known = sizes.get(id(node))
        if known is not None:
            return known
        line = first_line + int(node.start_mark.line)
        if id(node) in open_nodes:
            raise _error(origin, line, "an alias contains itself; allowed: aliases of finished values")
        open_nodes.add(id(node))
        total = 1
        for child in _children(node):
            total += size(child)
        open_nodes.discard(id(node))
        if total > MAX_NODES:
            raise _error(origin, line, f"holds or expands to too much; allowed: {MAX_NODES} values")
        sizes[id(node)] = total
        return total

    size(root)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    for item in node.value:
        if isinstance(item, tuple):
            yield from item
        else:
            yield item


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _mapping(
    root: yaml.Node,
    origin: str,
    first_line: int,
    keys: str = "the keys actions, tiers, configurations and metrics",
) -> yaml.MappingNode:
    if isinstance(root, yaml.MappingNode):
        return root
    line = first_line + int(root.start_mark.line)
    raise _error(origin, line, f"is not a map; allowed: {keys}")


def _entry(node: yaml.Node, key: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        entries: list[tuple[yaml.Node, yaml.Node]] = node.value
        for key_node, value in entries:
            if key_node.value == key:
                return value
    return None


def _manifests(root: yaml.Node) -> Iterator[yaml.MappingNode]:
    """Kubernetes objects in a document: itself, or the items of a List."""
    kind = _entry(root, "kind")
    if kind is None or not isinstance(root, yaml.MappingNode):
        return
    items = _entry(root, "items")
    if isinstance(items, yaml.SequenceNode):
        for item in items.value:
            yield from _manifests(item)
    else:
        yield root


def _from_config_map(manifests: list[yaml.MappingNode], origin: str) -> Document:
    found: list[tuple[str, yaml.Node]] = []
    keys_seen: list[str] = []
    for manifest in manifests:
        data = _entry(manifest, "data")
        if not isinstance(data, yaml.MappingNode) or _kind(manifest) != "ConfigMap":
            continue
        for key_node, value in data.value:
            keys_seen.append(str(key_node.value))
            if key_node.value in CONFIGMAP_KEYS:
                found.append((str(key_node.value), value))
    if not found:
        guess = next(
            (
                hint
                for key in keys_seen
                if (hint := did_you_mean(key, (*CONFIGMAP_KEYS, CONTROLLER_CONFIG_KEY)))
            ),
            "",
        )
        kinds = ", ".join(sorted({quoted(_kind(manifest)) for manifest in manifests}))
        raise _error(
            origin,
            1 + int(manifests[0].start_mark.line),
            f"no ConfigMap with the key {SCHEDULER_CONFIG_KEY} among the objects of kind {kinds}; "
            f"allowed: a ConfigMap with that key{guess}",
        )
    if len(found) > 1:
        lines = ", ".join(str(1 + int(value.start_mark.line)) for _, value in found)
        raise _error(origin, None, f"holds {len(found)} configurations (lines {lines}); allowed: one")
    key, value = found[0]
    return _embedded(key, value, origin)


def _kind(manifest: yaml.MappingNode) -> str:
    kind = _entry(manifest, "kind")
    return str(kind.value) if isinstance(kind, yaml.ScalarNode) else ""


def _embedded(key: str, value: yaml.Node, origin: str) -> Document:
    """The text under a ConfigMap's key as a document of its own."""
    line = 1 + int(value.start_mark.line)
    if not isinstance(value, yaml.ScalarNode):
        raise _error(origin, line, f"data[{key}] is not text; allowed: the configuration as one string")
    first_line = 1
    if value.style == "|":
        # Every line of a literal block is a line of the file; the block starts below its mark.
        first_line = line + 1
    else:
        origin = f"{origin}: {key}"
    roots = _compose(str(value.value), origin, first_line)
    if len(roots) != 1:
        raise _error(
            origin, line, f"holds {counted(roots, 'document')}; allowed: one scheduler configuration"
        )
    return Document(origin, _mapping(roots[0], origin, first_line), first_line)


class MapReader:
    """Reads the maps of a text, and collects what is wrong with them."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[ConfigurationProblem] = []

    def entries(self, node: yaml.Node, place: str) -> list[tuple[str, yaml.Node, yaml.Node]]:
        """Name, key and value of each; none of what is empty."""
        if not isinstance(node, yaml.MappingNode):
            if not _is_null(node):
                self.wrong(node, place, f"is {noun(node)}; allowed: a map")
            return []
        found: list[tuple[str, yaml.Node, yaml.Node]] = []
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if name in seen:
                self.wrong(key, place, f"{quoted(name)} is written twice; allowed: once")
                continue
            seen.add(name)
            found.append((name, key, value))
        return found

    def items(self, node: yaml.Node, place: str) -> list[yaml.Node]:
        """Those of a list; none of what is empty."""
        if isinstance(node, yaml.SequenceNode):
            return list(node.value)
        if not _is_null(node):
            self.wrong(node, place, f"is {noun(node)}; allowed: a list")
        return []

    def wrong(self, node: yaml.Node, place: str, message: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(self.problem(node, place, message))

    def problem(self, node: yaml.Node, place: str, message: str) -> ConfigurationProblem:
        return ConfigurationProblem(self.document.origin, self.document.line_of(node), place, message)

    def stop_if_wrong(self) -> None:
        if self.problems:
            raise ConfigurationError(self.problems)


def plain_value(node: yaml.Node) -> Value:
    """A node as a plain value, for arguments that their plugin does not declare."""
    if isinstance(node, yaml.SequenceNode):
        return tuple(plain_value(item) for item in node.value)
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): plain_value(value) for key, value in node.value}
    convert = _PLAIN_SCALARS.get(node.tag)
    try:
        return convert(node) if convert is not None else str(node.value)
    except (ValueError, KeyError):
        raise ValueError(f"{quoted(str(node.value))} does not match its tag") from None


def noun(node: yaml.Node) -> str:
    """What a node is, for messages."""
    if isinstance(node, yaml.MappingNode):
        return "a map"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "empty" if not node.value else f"the text {quoted(str(node.value))}"


def _error(origin: str, line: int | None, message: str) -> ConfigurationError:
    return ConfigurationError([ConfigurationProblem(origin, line, "", message)])
