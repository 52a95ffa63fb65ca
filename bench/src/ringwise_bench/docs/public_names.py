"""`docs/develop/public-names.md`: every public name, from the code, with the decided name beside it.

`decided_names.toml` lists the names that change; every other name stays. Names have a scope, such as the
command of a flag or the object of a JSON field: a decision is about a name in all of them, or `SCOPE NAME`.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import ringwise
from ringwise import wellknown
from ringwise.cli.commands import cli
from ringwise.cli.exit_codes import MEANINGS
from ringwise.device.metrics import DeviceMetrics
from ringwise.framework.configuration import SETTINGS
from ringwise.messages.event_reasons import EventReason
from ringwise.metrics.prometheus import Metrics
from ringwise.views.kinds import KINDS
from ringwise.views.lists import state_words
from ringwise.views.schemas import DOCUMENTS, json_schema
from ringwise_bench.checkout import CHART
from ringwise_bench.docs.commands_reference import walk
from ringwise_bench.docs.parts import table
from ringwise_bench.docs.reasons_reference import all_kinds

DECIDED = Path(__file__).with_name("decided_names.toml")
SOURCES = Path(ringwise.__file__).parent
#: How a decision says that a name goes.
_REMOVED = "removed:"
#: Options of Huawei's device plugin and of Volcano's components are in camel case; they stay as they are.
_OURS = re.compile(r"-[A-Za-z]|--[a-z0-9]+(-[a-z0-9]+)*")
_VARIABLE = re.compile(r'environ(?:\.get\(|\[)"(RINGWISE_[A-Z_]+)"')

#: Scope -> names in it; the scope of names that have none is empty.
Names = dict[str, set[str]]
Decisions = Mapping[str, Mapping[str, str]]


def read_decided() -> Decisions:
    result: Decisions = tomllib.loads(DECIDED.read_text(encoding="utf-8"))
    return result


def public_names(decided: Decisions) -> dict[str, Names]:
    """The public names of each group, as they are today, without those of commands and documents that go."""
    commands = {" ".join(path[1:]): command for path, command in walk(cli, ("ringwise",)) if len(path) > 1}
    documents = {kind.schema: kind for kind in DOCUMENTS}
    metrics = [family for one in (Metrics(), DeviceMetrics()) for family in one.families()]
    own = {
        f"{one.name}_total" if one.kind == "counter" else one.name: set(one.labels)
        for one in metrics
        if one.name.startswith("ringwise_")
    }
    constants = {value for value in vars(wellknown).values() if isinstance(value, str)}
    return {
        "commands": {"": set(commands)},
        "flags": {
            name: set(_options(command))
            for name, command in commands.items()
            if not _goes(decided, "commands", name)
        },
        "documents": {"": set(documents)},
        "JSON fields": {
            name: set(_fields(part))
            for schema, kind in documents.items()
            if not _goes(decided, "documents", schema)
            for name, part in json_schema(kind)["$defs"].items()
        },
        "states": {kind.plural: set(state_words(kind)) for kind in KINDS},
        "metrics": {"": set(own)},
        "metric labels": own,
        "event reasons": {"": set(EventReason)},
        "reasons of pending jobs": {"": {kind.code for kind in all_kinds()}},
        "annotations and labels": {"": _prefixed(constants)},
        "objects and data keys": {
            "": {name for name in constants if name.lower().startswith("ringwise") and "/" not in name}
        },
        "environment variables": {"": _variables()},
        "settings": {"": set(SETTINGS)},
        "exit codes": {"": {str(int(code)) for code in MEANINGS}},
    }


def _goes(decided: Decisions, group: str, name: str) -> bool:
    return decided.get(group, {}).get(name, "").startswith(_REMOVED)


def _options(command: click.Command) -> Iterator[str]:
    for option in command.params:
        if isinstance(option, click.Option):
            yield from (name for name in (*option.opts, *option.secondary_opts) if _OURS.fullmatch(name))


def _fields(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _fields(part)


def _prefixed(constants: set[str]) -> set[str]:
    """Annotations and labels of ours, also those that only the chart names."""
    prefix = wellknown.RINGWISE_PREFIX
    chart = "".join(file.read_text(encoding="utf-8") for file in CHART.rglob("*.yaml"))
    named = {name for name in constants if name.startswith(prefix)} - {prefix, wellknown.OPERATOR_API}
    return named | set(re.findall(rf"(?<!//){re.escape(prefix)}[a-z-]*[a-z]", chart))


def _variables() -> set[str]:
    return {
        name for file in SOURCES.rglob("*.py") for name in _VARIABLE.findall(file.read_text(encoding="utf-8"))
    }


def decision(decided: Mapping[str, str], scope: str, name: str) -> str:
    """The decided name; the name itself if it stays."""
    return decided.get(f"{scope} {name}", decided.get(name, name))


def names_parts() -> dict[str, str]:
    """Those of `docs/develop/public-names.md`. Raises ValueError if decisions contradict the code."""
    decided = read_decided()
    names = public_names(decided)
    problems = [
        *_lost(names, decided),
        *(one for group, scopes in names.items() for one in _twice(group, scopes, decided.get(group, {}))),
    ]
    if problems:
        raise ValueError(f"{DECIDED.name}: {'; '.join(sorted(problems))}")
    return {group: _table(scopes, decided.get(group, {})) for group, scopes in names.items()}


def _lost(names: Mapping[str, Names], decided: Decisions) -> Iterator[str]:
    for group, of in decided.items():
        scopes = names.get(group, {})
        known = {
            key for scope, found in scopes.items() for name in found for key in (name, f"{scope} {name}")
        }
        yield from (f"{group}: {name} does not exist" for name in of if name not in known)


def _twice(group: str, scopes: Names, decided: Mapping[str, str]) -> Iterator[str]:
    """Names of one scope that would get the same name."""
    for scope, names in scopes.items():
        new = Counter(decision(decided, scope, name) for name in names)
        for name, count in new.items():
            if count > 1 and " " not in name:
                yield f"{group}: two names of {scope or 'the group'} become {name}"


def _table(scopes: Names, decided: Mapping[str, str]) -> str:
    """Names that change in rows, the others in one paragraph."""
    changed = ((f"`{name}`", new if " " in new else f"`{new}`") for name, new in sorted(decided.items()))
    stay = {
        name for scope, names in scopes.items() for name in names if decision(decided, scope, name) == name
    }
    rows = table(("today", "decided"), changed) + "\n\n" if decided else ""
    return f"{rows}Unchanged: {', '.join(f'`{name}`' for name in sorted(stay))}."
