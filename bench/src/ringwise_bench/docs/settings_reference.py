"""`docs/settings.md`: the reference of the configuration file, from the declarations that check it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ringwise.framework.arguments import Argument, ArgumentFamily, printed
from ringwise.framework.configuration import ENABLE_FLAGS, SETTINGS
from ringwise.scheduler.defaults import BUILT_IN, DEFAULT_ACTIONS, DEFAULT_TIERS

_INTRODUCTION = """\
# The configuration file

Ringwise reads `volcano-scheduler.conf` as Volcano does: as a file, or in a ConfigMap under the key
`volcano-scheduler.conf`. This page is printed from the declarations that check the file (`make docs`).

An invalid value is an error, never a silent default. All errors are reported at once, each with its line,
what is allowed and the nearest valid word. Numbers and booleans may be quoted or not; booleans are `true` or
`false` in any case. Everything that is not written has its default, also where there is no file at all.

## The default
"""

_AFTER_SETTINGS = """\
"No effect" marks what files written for Volcano or for Huawei's plugin carry: it is checked and not used.
"""

_FLAGS = """\
## Enable flags of a plugin

A flag is a key beside the plugin's `name`. `false` leaves the plugin out of one kind of decision. Both
spellings, `enable` and `enabled`, are accepted for every flag.
"""

_PLUGINS = """\
## Plugins and their arguments

No plugin may be named twice. Plugins of installed packages are configured in the same way, and the arguments
they declare are checked in the same way ([plugins](develop/plugins.md)).
"""

_ACTIONS = """\
## Actions and their arguments

`actions` lists them with commas between them; they run in that order. Their arguments are in an entry of
`configurations` with the action's name.
"""


def settings_page() -> str:
    """The whole of `docs/settings.md`."""
    return "\n".join([_INTRODUCTION, _default_file(), *_settings(), *_flags(), *_plugins(), *_actions()])


def _default_file() -> str:
    lines = ["```yaml", f'actions: "{", ".join(DEFAULT_ACTIONS)}"', "tiers:"]
    for tier in DEFAULT_TIERS:
        lines += ["- plugins:", *(f"  - name: {plugin}" for plugin in tier)]
    lines += ["configurations:", "- name: init-params", "  arguments:"]
    for row in SETTINGS.values():
        if not row.default_text:
            lines.append(f'    {row.name}: "{printed(row.default)}"')
    return "\n".join([*lines, "```", ""])


def _settings() -> list[str]:
    return ["## Settings (`init-params`)\n", _table(SETTINGS.values()), _AFTER_SETTINGS]


def _flags() -> list[str]:
    rows = [
        f"| `{flag.key}` | {printed(flag.default)} | {flag.meaning or '(no effect)'} |"
        for flag in sorted(ENABLE_FLAGS.values(), key=lambda flag: flag.key)
    ]
    return [_FLAGS, "\n".join(["| flag | default | decides on |", "|---|---|---|", *rows, ""])]


def _plugins() -> list[str]:
    parts = [_PLUGINS]
    for spec in BUILT_IN.plugins.values():
        summary = spec.summary
        if spec.alias_prefix:
            summary += f". Every name that begins with `{spec.alias_prefix}` means this plugin, too"
        parts.append(_section(spec.name, summary, spec.arguments or ()))
    return parts


def _actions() -> list[str]:
    actions = BUILT_IN.actions.values()
    return [_ACTIONS, *(_section(spec.name, spec.summary, spec.arguments) for spec in actions)]


def _section(name: str, summary: str, declared: Iterable[Argument[Any] | ArgumentFamily[Any]]) -> str:
    rows = [row.pattern if isinstance(row, ArgumentFamily) else row for row in declared]
    return f"### {name}\n\n{summary[0].upper()}{summary[1:]}.\n" + (f"\n{_table(rows)}" if rows else "")


def _table(rows: Iterable[Argument[Any]]) -> str:
    lines = ["| name | default | allowed | meaning |", "|---|---|---|---|"]
    for row in rows:
        meaning = row.meaning if row.has_effect else f"{row.meaning} (no effect)"
        lines.append(f"| `{row.name}` | {row.printed_default} | {row.allowed} | {meaning} |")
    return "\n".join([*lines, ""])
