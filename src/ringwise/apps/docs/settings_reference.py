"""The reference page of the configuration file, printed from the rows that check it."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.framework.configuration import DEFAULT_ACTIONS, DEFAULT_TIERS, SETTINGS
from ringwise.framework.parameters import Parameter, printed
from ringwise.framework.plugin_options import (
    ACTION_ARGUMENTS,
    ACTIONS,
    ARGUMENT_FAMILIES,
    PLUGIN_ARGUMENTS,
    PLUGINS,
    SWITCHES,
)

_INTRODUCTION = """\
# The configuration file

Ringwise reads `volcano-scheduler.conf` as Volcano does: as a file, or inside a ConfigMap under the key
`volcano-scheduler.conf`. This page is printed from the rows that check the file (`make docs`).

A mistake is an error, never a silent default: every error is told in one reading, with its line, what is
allowed and the nearest valid word. Numbers and truth values may stand in quotes or without; truth values are
`true` or `false` in any case. What is not written has its default; without a file all of it has.

## The default
"""

_AFTER_SETTINGS = """\
"No effect" marks what the files of other systems carry: it is checked, and Ringwise does not need it.
"""

_SWITCHES = """\
## Switches of a plugin

Each stands beside the plugin's `name` and turns one of its functions on or off. Both spellings, `enable` and
`enabled`, are accepted for every switch.
"""

_PLUGINS = """\
## Plugins and their arguments

`volcano-npu*` (any name that begins so, such as a build name of the field) means `topology910`. A plugin
that an installed package registers is known by its name; its arguments are handed to it unchecked.
`drf` with `enableHierarchy` cannot stand in one tier with `proportion`. No plugin stands in the file twice.
"""

_ACTIONS = """\
## Actions and their arguments

`actions` lists them with commas between them; they run in that order. Arguments stand in an entry of
`configurations` with the action's name.
"""


def settings_page() -> str:
    """The whole of `docs/settings.md`."""
    return "\n".join([_INTRODUCTION, _default_file(), *_settings(), *_switches(), *_plugins(), *_actions()])


def _default_file() -> str:
    lines = ["```yaml", f'actions: "{", ".join(DEFAULT_ACTIONS)}"', "tiers:"]
    for tier in DEFAULT_TIERS:
        lines += ["- plugins:", *(f"  - name: {plugin}" for plugin in tier)]
    lines += ["configurations:", "- name: init-params", "  arguments:"]
    for row in SETTINGS.values():
        if row.default not in (None, ""):
            lines.append(f'    {row.name}: "{printed(row.default)}"')
    return "\n".join([*lines, "```", ""])


def _settings() -> list[str]:
    return ["## Settings (`init-params`)\n", _table(SETTINGS.values()), _AFTER_SETTINGS]


def _switches() -> list[str]:
    rows = [
        f"| `{switch.key}` | {printed(switch.default)} |"
        for switch in sorted(SWITCHES.values(), key=lambda switch: switch.key)
    ]
    return [_SWITCHES, "\n".join(["| switch | default |", "|---|---|", *rows, ""])]


def _plugins() -> list[str]:
    parts = [_PLUGINS]
    for plugin, meaning in PLUGINS.items():
        rows = list(PLUGIN_ARGUMENTS.get(plugin, {}).values())
        if plugin in ARGUMENT_FAMILIES:
            rows.append(ARGUMENT_FAMILIES[plugin].pattern)
        parts.append(_section(plugin, meaning, rows))
    return parts


def _actions() -> list[str]:
    return [
        _ACTIONS,
        *(_section(action, text, ACTION_ARGUMENTS[action].values()) for action, text in ACTIONS.items()),
    ]


def _section(name: str, meaning: str, rows: Iterable[Parameter]) -> str:
    rows = list(rows)
    return f"### {name}\n\n{meaning[0].upper()}{meaning[1:]}.\n" + (f"\n{_table(rows)}" if rows else "")


def _table(rows: Iterable[Parameter]) -> str:
    lines = ["| name | default | allowed | meaning |", "|---|---|---|---|"]
    for row in rows:
        meaning = row.meaning if row.has_effect else f"{row.meaning} (no effect)"
        lines.append(f"| `{row.name}` | {row.printed_default} | {row.allowed} | {meaning} |")
    return "\n".join([*lines, ""])
