"""Objects, events and commands with other texts in them: one walk over their types.

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
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, get_args, get_origin, get_type_hints

from ringwise.apps.support.vocabulary import RECORD_KEYS
from ringwise.framework.arguments import Argument
from ringwise.framework.configuration import Configuration, Settings
from ringwise.messages import commands as cmd
from ringwise.messages import events as ev
from ringwise.messages.expected_start import ExpectedStart
from ringwise.reasons import Reason, ReasonKind
from ringwise.records import dataclass
from ringwise.scheduler.faults.document import unpacked
from ringwise.state.model import (
    HyperNodeMember,
    Isolation,
    NodeReservation,
    PriorityClass,
    Requirement,
    Taint,
    Toleration,
    VisibleDevices,
)

#: Stands for a text that is left out: that there is one can decide.
LEFT_OUT = "left-out"
#: Fields with sentences of people or about their objects.
_SENTENCES = {
    *((Isolation, name) for name in ("by", "reason")),
    *((NodeReservation, name) for name in ("by", "at")),
    *((VisibleDevices, name) for name in ("container", "field", "source")),
}
_SENTENCE_NAMES = frozenset(
    {"message", "why", "problem", "problems", "tier_conflicts", "mount_path", "sharing_cpus"}
)
#: Where an object was read; set anew when a bundle is read.
_ORIGIN = "origin"
#: Fields with names that others are made of.
_NAMES = frozenset({"name", "namespace", "queue", "parent", "node", "pod", "group", "task", "job", "key"})
#: What nothing is made of: priority classes, and keys of labels.
_JOINED_WITH_NOTHING = frozenset({PriorityClass, Requirement, Taint, Toleration})
#: Fields of commands that Ringwise itself words.
_OWN_WORDS = frozenset({"phase", "start", "reason", "problem"})
#: All that are decided, wherever they are declared.
_COMMANDS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(cmd.Command)}


@dataclass(frozen=True, slots=True)
class Texts:
    """What becomes of a text: of one in an object, of a name there, and of what Ringwise itself wrote."""

    value: Callable[[str], str]
    name: Callable[[str], str]
    own: Callable[[str], str]
    #: Sentences stay as they are.
    sentences: bool = False


def rewrite_event(name: str, content: Any, kinds: Mapping[str, type[ev.Event]], texts: Texts) -> Any:
    """`content`: as JSON has it. Raises KeyError for an event that is not known."""
    return _rewrite(kinds[name], content, texts, "")


def rewrite_command(command: Any, texts: Texts, *, with_details: bool) -> dict[str, Any]:
    """Without details where no replay compares them: they may name what is in no event."""
    given = command if isinstance(command, dict) else {}
    kind = str(given.get("type", ""))
    known = _COMMANDS.get(kind)
    if known is None:
        return {"type": texts.own(kind)}
    done: dict[str, Any] = {"type": kind}
    hints = _hints(known)
    for key, value in given.items():
        if key not in hints:
            continue
        if key in ("message", "why") and not texts.sentences:
            done[key] = ""
        elif key == "reason" and isinstance(value, dict):
            done[key] = _reason(value, texts, with_details)
        elif known is cmd.Publish and key == "data":
            done[key] = {one: texts.own(text) for one, text in value.items()} if with_details else {}
        elif key in _OWN_WORDS and isinstance(value, str):
            done[key] = texts.own(value) if with_details or key == "phase" else ""
        else:
            done[key] = _rewrite(hints[key], value, texts, key)
    return done


def _reason(given: dict[str, Any], texts: Texts, with_details: bool) -> dict[str, Any]:
    if texts.sentences:
        return given
    details = _own(given.get("details", {}), texts) if with_details else {}
    return {"code": texts.own(str(given.get("code", ""))), "message": "", "details": details, "cures": []}


def _own(value: Any, texts: Texts) -> Any:
    """Details: sentences are left out, as no replay compares them."""
    if isinstance(value, str):
        return None if " " in value else texts.own(value)
    if isinstance(value, dict):
        return {texts.own(key): _own(item, texts) for key, item in value.items()}
    return [_own(item, texts) for item in value] if isinstance(value, list) else value


def rewrite_configuration(given: Any, texts: Texts) -> Any:
    """Its actions, tiers, settings and arguments; what was remarked about its file is left out."""
    tiers = [
        {
            "plugins": [
                {**plugin, "arguments": _words(plugin["arguments"], texts)} for plugin in tier["plugins"]
            ]
        }
        for tier in given["tiers"]
    ]
    arguments = {action: _words(found, texts) for action, found in given["action_arguments"].items()}
    settings = {key: _setting(key, value, texts) for key, value in given["settings"].items()}
    return {
        "actions": given["actions"],
        "tiers": tiers,
        "settings": settings,
        "action_arguments": arguments,
    }


def _setting(name: str, value: Any, texts: Texts) -> Any:
    """One of a few words stays."""
    argument = _ARGUMENTS.get(name)
    return value if argument is None or value in argument.words else _words(value, texts)


_ARGUMENTS: Mapping[str, Argument[Any]] = {
    field.name: field.metadata["argument"] for field in fields(Settings) if "argument" in field.metadata
}


def _words(value: Any, texts: Texts) -> Any:
    if isinstance(value, str):
        return texts.own(value)
    if isinstance(value, dict):
        return {texts.own(key): _words(item, texts) for key, item in value.items()}
    return [_words(item, texts) for item in value] if isinstance(value, list) else value


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


#: Rewrites values of one type.
Walk = Callable[[Any, Texts], Any]


def _rewrite(kind: Any, value: Any, texts: Texts, field: str) -> Any:
    return _walk_of(kind, field)(value, texts)


@cache
def _walk_of(kind: Any, field: str) -> Walk:
    """Found once for each type and name of a field: a bundle has millions of values."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (typing.Union, types.UnionType):
        others = [part for part in parts if part is not type(None)]
        return _walk_of(others[0] if len(others) == 1 else Any, field)
    if isinstance(kind, type):
        if issubclass(kind, (bool, int, float, enum.Enum)):
            return lambda value, texts: value
        if kind is Configuration:
            return rewrite_configuration
        if kind is ReasonKind:
            # Defined by Ringwise.
            return lambda value, texts: value
        if is_dataclass(kind):
            return _walk_of_record(kind)
    if origin is tuple and parts and parts[-1] is not ...:
        each = tuple(_walk_of(part, field) for part in parts)
        return lambda value, texts: [walk(item, texts) for walk, item in zip(each, value, strict=True)]
    part = parts[-2] if origin is tuple else parts[-1] if parts else Any
    return partial(_anything, part, field)


def _anything(part: Any, field: str, value: Any, texts: Texts) -> Any:
    """By what it is; the type says what is in it."""
    if isinstance(value, str):
        return texts.name(value) if field in _NAMES else texts.value(value)
    if isinstance(value, list):
        walk = _walk_of(part, field)
        return [walk(item, texts) for item in value]
    if isinstance(value, dict):
        walk = _walk_of(part, field)
        return {texts.value(key): walk(item, texts) for key, item in value.items()}
    return value


def _walk_of_record(kind: type) -> Walk:
    walks: dict[str, Walk] = {}
    for name, hint in _hints(kind).items():
        if name == _ORIGIN:
            continue
        walk = _walk_of(hint, "" if kind in _JOINED_WITH_NOTHING else name)
        if kind is Reason and name in ("hints", "found_cures"):
            walk = partial(_unless_kept, lambda item: [])
        elif kind is ExpectedStart and name == "why":
            # Worded by Ringwise, and part of what is said in a command.
            walk = _words
        elif kind is HyperNodeMember and name == "pattern":
            walk = _pattern
        elif name in _SENTENCE_NAMES or (kind, name) in _SENTENCES:
            walk = partial(_unless_kept, _left_out)
        elif hint is str and issubclass(kind, ev.Event) and kind.__name__.endswith("Read"):
            # What a leader left to the next one: texts are documents.
            walk = _record
        walks[name] = walk

    def rewrite(value: Any, texts: Texts) -> Any:
        if not isinstance(value, dict):
            return None
        return {
            # Most fields are empty, and stay so.
            key: walk(item, texts) if item else item
            for key, item in value.items()
            if (walk := walks.get(key)) is not None
        }

    return rewrite


#: Of a regular expression: what means something in it, or letters that stand for themselves.
_IN_PATTERN = re.compile(
    r"\\[pPx]\{[^}]*\}|\\x..|\\.|\[\^?\]?(?:\[:\^?\w+:\]|[^\]])*\]|\(\?P?<\w*>|\(\?[\w-]*[:)]|([A-Za-z]+)"
)


def _pattern(value: Any, texts: Texts) -> Any:
    """Names of nodes in it get their pseudonyms, so it matches as before."""
    return _IN_PATTERN.sub(lambda found: texts.value(found[1]) if found[1] else found[0], str(value))


def _unless_kept(instead: Callable[[Any], Any], item: Any, texts: Texts) -> Any:
    return item if texts.sentences else instead(item)


def _record(text: Any, texts: Texts) -> str:
    """A record that a leader left; one that cannot be read has no effect and is left out."""
    try:
        found = json.loads(text)
        if isinstance(found, dict) and isinstance(found.get("compressed"), str):
            found = json.loads(unpacked(found["compressed"]))
    except (TypeError, ValueError, RecursionError, zlib.error):
        return ""
    return json.dumps(_recorded(found, texts), separators=(",", ":"))


def _recorded(value: Any, texts: Texts) -> Any:
    if isinstance(value, str):
        return texts.value(value)
    if isinstance(value, dict):
        return {
            key if key in RECORD_KEYS else texts.value(key): _recorded(item, texts)
            for key, item in value.items()
        }
    return [_recorded(item, texts) for item in value] if isinstance(value, list) else value


def _left_out(item: Any) -> Any:
    if isinstance(item, list):
        return [LEFT_OUT] * len(item)
    return LEFT_OUT if isinstance(item, str) and item else item
