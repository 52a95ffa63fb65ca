"""Events, commands and configurations with other names in them and without free text: one walk over types.

What is read of an object is what its type has: no Secrets, no environment, images, arguments or commands of
containers. The walk follows the declared types, so a new kind, field or command comes with it, and a text
that is in no declared field does not.
"""

from __future__ import annotations

import enum
import json
import re
import types
import typing
import zlib
from collections.abc import Callable, Mapping
from dataclasses import field, fields, is_dataclass
from functools import cache, partial
from typing import Any, get_args, get_origin, get_type_hints

from ringwise.apps.journal.format import EVENT_TYPES, LEFT_OUT, plain
from ringwise.apps.support.pseudonyms import Pseudonyms, TextRole
from ringwise.apps.support.vocabulary import argument_prefixes, reason_kinds
from ringwise.framework.configuration import Configuration, PluginOption
from ringwise.manifests.text.name_expressions import NameExpressions
from ringwise.messages import accounting
from ringwise.messages import commands as cmd
from ringwise.messages import events as ev
from ringwise.messages.move_plan import MovePlan
from ringwise.reasons import Reason, ReasonKind, Stage
from ringwise.records import dataclass
from ringwise.scheduler.cache.entries import expanded
from ringwise.scheduler.cache.record_tables import table_of
from ringwise.state import model
from ringwise.wellknown import BUNDLE_PATTERN

#: Fields with free text: what people write, and sentences about their objects.
_TEXTS = {
    *((model.Isolation, name) for name in ("by", "reason")),
    *((model.NodeReservation, name) for name in ("by", "reason")),
    *((MovePlan, name) for name in ("by", "approved_by")),
    *((model.VisibleDevices, name) for name in ("container", "field", "source")),
    *((cmd.SetHyperNodeStatus, "reason"), (cmd.SetJobStatus, "reason"), (cmd.SetGroupStatus, "start")),
    (cmd.Publish, "data"),
}
_TEXT_NAMES = frozenset(
    {"message", "why", "problem", "problems", "tier_conflicts", "warnings", "mount_path", "sharing_cpus"}
)
#: Where an object was read; set again when a bundle is read.
_ORIGIN = "origin"
#: Fields with names that others are made of.
_NAMES = frozenset({"name", "namespace", "queue", "parent", "node", "pod", "group", "task", "job", "key"})
#: What nothing is made of: priority classes, keys of labels, and plugins.
_JOINED_WITH_NOTHING = frozenset(
    {model.PriorityClass, model.Requirement, model.Taint, model.Toleration, PluginOption}
)
#: All that are decided, wherever they are declared.
_COMMANDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (*vars(cmd).values(), *vars(accounting).values())
    if isinstance(kind, type) and issubclass(kind, cmd.Command)
}


@dataclass(frozen=True, slots=True)
class Renaming:
    """What becomes of names and of free text."""

    #: None: names stay.
    names: Pseudonyms | None = None
    with_text: bool = False
    #: Expressions for names of nodes, which do not match pseudonyms: the nodes get these labels instead.
    patterns: dict[str, tuple[str, NameExpressions]] = field(default_factory=dict)
    #: By name of a node: its labels for expressions.
    matched: dict[str, dict[str, str]] = field(default_factory=dict)

    def rename(self, text: str, role: TextRole = TextRole.VALUE) -> str:
        return text if self.names is None else self.names.rename(text, role)

    def event(self, name: str, content: Any) -> Any:
        """`content`: as JSON has it. Raises KeyError for an event that is not known."""
        kind: Any = EVENT_TYPES[name]
        return _walk_of(kind, "")(content, self)

    def command(self, command: Any) -> dict[str, Any]:
        kind = command["type"]
        shape = _COMMANDS.get(kind)
        return {"type": LEFT_OUT} if shape is None else {"type": kind, **_walk_of(shape, "")(command, self)}

    def configuration(self, content: Any) -> dict[str, Any]:
        renamed: dict[str, Any] = _walk_of(Configuration, "")(content, self)
        return renamed


#: Returns a value of one type with other names.
Walk = Callable[[Any, Renaming], Any]


@cache
def _walk_of(kind: Any, field: str) -> Walk:
    """Found once for each type and name of a field: a bundle has millions of values."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (typing.Union, types.UnionType):
        others = [part for part in parts if part is not type(None)]
        return _walk_of(others[0] if len(others) == 1 else Any, field)
    if origin is typing.Literal:
        return lambda value, renaming: value if value in parts else None
    if isinstance(kind, type):
        if issubclass(kind, enum.Enum):
            return lambda value, renaming: kind(value).value
        if issubclass(kind, (bool, int, float)):
            return lambda value, renaming: value if isinstance(value, (int, float)) else None
        if kind is Reason:
            return _reason
        if is_dataclass(kind):
            return _walk_of_record(kind)
    if origin is tuple and parts and parts[-1] is not ...:
        each = tuple(_walk_of(part, field) for part in parts)
        return lambda value, renaming: [walk(item, renaming) for walk, item in zip(each, value, strict=True)]
    part = parts[-2] if origin is tuple else parts[-1] if parts else Any
    role = TextRole.NAME if field in _NAMES else TextRole.FAULT_CODE if field == "code" else TextRole.VALUE
    return partial(_anything, part, field, role)


def _anything(part: Any, field: str, role: TextRole, value: Any, renaming: Renaming) -> Any:
    """By what it is; the type says what is in it."""
    if isinstance(value, str):
        return renaming.rename(value, role)
    walk = _walk_of(part, field)
    if isinstance(value, list):
        return [walk(item, renaming) for item in value]
    if isinstance(value, dict):
        return {
            renaming.rename(key): (
                # Under a key that stays, rules read numbers.
                renaming.rename(item, TextRole.WORD)
                if isinstance(item, str) and (renaming.names is None or renaming.names.stays(key))
                else walk(item, renaming)
            )
            for key, item in value.items()
        }
    return value


def _walk_of_record(kind: type) -> Walk:
    hints = get_type_hints(kind)
    walks: dict[str, Walk] = {}
    for name in (one.name for one in fields(kind)):
        walk = _walk_of(hints[name], "" if kind in _JOINED_WITH_NOTHING else name)
        if (name in _TEXT_NAMES and hints[name] in (str, tuple[str, ...])) or (kind, name) in _TEXTS:
            # A replay compares what else a command says, in which no field declares the names.
            walk = partial(_text, kind in _COMMANDS.values() and name not in ("message", "why"))
        elif kind is PluginOption and name == "arguments":
            walk = _arguments
        elif kind is ev.LeaderRecordRead and hints[name] is not bool:
            # What a leader left to the next one: texts are documents.
            walk = _record if hints[name] is str else _tables
        if name != _ORIGIN:
            walks[name] = walk

    def rename(value: Any, renaming: Renaming) -> Any:
        if not isinstance(value, dict):
            return None
        renamed = {
            # Most fields are empty, and stay so.
            key: walk(item, renaming) if item else item
            for key, item in value.items()
            if (walk := walks.get(key)) is not None
        }
        if renaming.names is not None and (more := _MORE.get(kind)) is not None:
            more(value, renamed, renaming)
        return renamed

    return rename


def _member(value: dict[str, Any], renamed: dict[str, Any], renaming: Renaming) -> None:
    """A member with an expression becomes one with a label, which the nodes get whose names match."""
    if not (text := value.get("pattern")):
        return
    if text not in renaming.patterns:
        renaming.patterns[text] = f"{BUNDLE_PATTERN}-{len(renaming.patterns)}", NameExpressions([text])
    key, expressions = renaming.patterns[text]
    if expressions.errors:
        # It stays one that cannot be read.
        renamed["pattern"] = "("
    else:
        renamed |= {"pattern": "", "selector": [{"key": key, "operator": "Exists", "values": []}]}


def _matched(value: dict[str, Any], renamed: dict[str, Any], renaming: Renaming) -> None:
    assert renaming.names is not None
    if not (renaming.patterns and renaming.names.closed):
        return
    name = value["name"]
    if name not in renaming.matched:
        renaming.matched[name] = {
            key: "" for key, expressions in renaming.patterns.values() if expressions.matching(name)
        }
    renamed["labels"] = {**(renamed.get("labels") or {}), **renaming.matched[name]}


_MORE: Mapping[type, Callable[[dict[str, Any], dict[str, Any], Renaming], None]] = {
    model.HyperNodeMember: _member,
    model.Node: _matched,
}


def _text(is_compared: bool, value: Any, renaming: Renaming) -> Any:
    """That there is a text can decide, and how many."""
    if renaming.with_text and not (is_compared and renaming.names):
        return value
    if isinstance(value, list):
        return [LEFT_OUT] * len(value)
    if isinstance(value, dict):
        return {renaming.rename(key): LEFT_OUT for key in value}
    return LEFT_OUT


def _record(text: Any, renaming: Renaming) -> str:
    """A record that a leader left; one that cannot be read has no effect and is left out."""
    try:
        record = json.loads(text, object_hook=expanded)
    except (TypeError, ValueError, RecursionError, zlib.error):
        return ""
    if not isinstance(record, (dict, list)):
        return ""
    return json.dumps(_walk_of(Any, "")(record, renaming), separators=(",", ":"))


#: What follows the name of a table in its data key.
_TABLE_ENDING = re.compile(r"^[^.]+(\.\d)?\.json$")


def _tables(tables: Any, renaming: Renaming) -> dict[str, str]:
    """The tables of a leader record, which have names that everybody may know."""
    entries = tables.items() if isinstance(tables, dict) else ()
    return {
        key: _record(text, renaming)
        for key, text in entries
        if renaming.rename(table_of(key)) == table_of(key) and _TABLE_ENDING.search(key)
    }


def _reason(value: Any, renaming: Renaming) -> Any:
    """Of an event with its kind and names; of a command, whose names no field declares, with its numbers."""
    details = value.get("details", {})
    if "kind" in value:
        code = value["kind"]["code"]
        kind = reason_kinds().get(code) or ReasonKind(renaming.rename(code), Stage.PLAN, LEFT_OUT)
        return {
            "kind": plain(kind),
            "details": {key: _walk_of(Any, "")(item, renaming) for key, item in details.items()},
        }
    if renaming.with_text and renaming.names is None:
        return value
    message, fixes = (value["message"], value["fixes"]) if renaming.with_text else (LEFT_OUT, [])
    numbers = {key: _numbers(item) for key, item in details.items()}
    return {"code": renaming.rename(value["code"]), "message": message, "details": numbers, "fixes": fixes}


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return LEFT_OUT if isinstance(value, (str, dict)) else value


def _arguments(arguments: dict[str, Any], renaming: Renaming) -> dict[str, Any]:
    """How the names of some begin is declared, such as `binpack.resources.`; how they end is not."""
    renamed = {}
    for name, value in arguments.items():
        start = next((one for one in argument_prefixes() if name.startswith(one)), "")
        renamed[start + renaming.rename(name[len(start) :])] = _walk_of(Any, "")(value, renaming)
    return renamed
