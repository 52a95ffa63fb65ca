"""`docs/reference/settings.md`: the configuration file, from the declarations that check it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ringwise.framework.arguments import Argument, ArgumentFamily, printed
from ringwise.framework.configuration import ENABLE_FLAGS, SETTINGS
from ringwise.scheduler.defaults import BUILT_IN, DEFAULT_ACTIONS, DEFAULT_TIERS
from ringwise_bench.docs.parts import table


def settings_parts() -> dict[str, str]:
    """Those of `docs/reference/settings.md`."""
    flags = sorted(ENABLE_FLAGS.values(), key=lambda flag: flag.key)
    actions = BUILT_IN.actions.values()
    return {
        "the default": _default_file(),
        "settings": _table(SETTINGS.values()),
        "flags": table(
            ("flag", "default", "decides on"),
            ((f"`{one.key}`", printed(one.default), one.meaning or "(no effect)") for one in flags),
        ),
        "plugins": "\n".join(_plugins()),
        "actions": "\n".join(_section(spec.name, spec.summary, spec.arguments) for spec in actions),
    }


def _default_file() -> str:
    lines = ["```yaml", f'actions: "{", ".join(DEFAULT_ACTIONS)}"', "tiers:"]
    for tier in DEFAULT_TIERS:
        lines += ["- plugins:", *(f"  - name: {plugin}" for plugin in tier)]
    lines += ["configurations:", "- name: init-params", "  arguments:"]
    for row in SETTINGS.values():
        if not row.default_text:
            lines.append(f'    {row.name}: "{printed(row.default)}"')
    return "\n".join([*lines, "```", ""])


def _plugins() -> Iterator[str]:
    for spec in BUILT_IN.plugins.values():
        summary = spec.summary
        if spec.alias_prefix:
            summary += f". Every name that begins with `{spec.alias_prefix}` is an alias of this plugin"
        yield _section(spec.name, summary, spec.arguments or ())


def _section(name: str, summary: str, declared: Iterable[Argument[Any] | ArgumentFamily[Any]]) -> str:
    rows = [row.pattern if isinstance(row, ArgumentFamily) else row for row in declared]
    return f"### {name}\n\n{summary[0].upper()}{summary[1:]}.\n" + (f"\n{_table(rows)}" if rows else "")


def _table(rows: Iterable[Argument[Any]]) -> str:
    cells = (
        (
            f"`{row.name}`",
            row.printed_default,
            row.allowed,
            row.meaning if row.has_effect else f"{row.meaning} (no effect)",
        )
        for row in rows
    )
    return table(("name", "default", "allowed", "meaning"), cells) + "\n"
