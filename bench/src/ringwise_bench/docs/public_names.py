"""`docs/develop/public-names.md`: every public name, from the code, with the decided name beside it.

`decided_names.toml` lists the names that change; every other name stays.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from ringwise import wellknown
from ringwise.cli.commands import cli
from ringwise.cli.exit_codes import MEANINGS
from ringwise.device.metrics import DeviceMetrics
from ringwise.framework.configuration import SETTINGS
from ringwise.messages.event_reasons import EventReason
from ringwise.metrics.prometheus import Metrics
from ringwise.views.lists import states_of
from ringwise.views.schemas import DOCUMENTS, json_schema
from ringwise_bench.docs.commands_reference import LISTED, walk
from ringwise_bench.docs.parts import table
from ringwise_bench.docs.reasons_reference import all_kinds

DECIDED = Path(__file__).with_name("decided_names.toml")
#: Options of Huawei's device plugin and of Volcano's components are in camel case; they stay as they are.
_OURS = re.compile(r"-[A-Za-z]|--[a-z0-9]+(-[a-z0-9]+)*")


def public_names() -> dict[str, set[str]]:
    """The public names of each group, as they are today."""
    commands = list(walk(cli, ("ringwise",)))
    metrics = [family for one in (Metrics(), DeviceMetrics()) for family in one.families()]
    own = [family for family in metrics if family.name.startswith("ringwise_")]
    constants = [value for value in vars(wellknown).values() if isinstance(value, str)]
    return {
        "commands": {" ".join(path[1:]) for path, _ in commands if len(path) > 1},
        "flags": {name for _, command in commands for name in _options(command)},
        "documents": {kind.schema for kind in DOCUMENTS},
        "JSON fields": {name for kind in DOCUMENTS for name in _fields(json_schema(kind))},
        "states": {state for kind in LISTED for state in states_of(kind)},
        "metrics": {f"{one.name}_total" if one.kind == "counter" else one.name for one in own},
        "metric labels": {label for family in own for label in family.labels},
        "event reasons": set(EventReason),
        "reasons of pending jobs": {kind.code for kind in all_kinds()},
        "annotations and labels": {
            name for name in constants if name.startswith(wellknown.RINGWISE_PREFIX) and name[-1] != "/"
        },
        "settings": set(SETTINGS),
        "exit codes": {str(int(code)) for code in MEANINGS},
    }


def _options(command: click.Command) -> Iterator[str]:
    for option in command.params:
        if isinstance(option, click.Option):
            yield from (name for name in (*option.opts, *option.secondary_opts) if _OURS.fullmatch(name))


def _fields(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _fields(part)


def names_parts() -> dict[str, str]:
    """Those of `docs/develop/public-names.md`. Raises ValueError if a decided name belongs to no name."""
    decided: Mapping[str, Mapping[str, str]] = tomllib.loads(DECIDED.read_text(encoding="utf-8"))
    names = public_names()
    lost = {
        f"{group}: {name}" for group, of in decided.items() for name in of if name not in names.get(group, ())
    }
    if lost:
        raise ValueError(f"{DECIDED.name} has names that do not exist: {', '.join(sorted(lost))}")
    return {group: _table(found, decided.get(group, {})) for group, found in names.items()}


def _table(names: Iterable[str], decided: Mapping[str, str]) -> str:
    """Names that change in rows, the others in one paragraph."""
    changed = ((f"`{name}`", new if " " in new else f"`{new}`") for name, new in sorted(decided.items()))
    same = ", ".join(f"`{name}`" for name in sorted(names) if name not in decided)
    rows = table(("today", "decided"), changed) + "\n\n" if decided else ""
    return f"{rows}Unchanged: {same}."
