"""Prints the tables of Volcano's plugins and actions into `docs/migration.md`.

The text of the page is written by hand and stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ringwise.framework.registry import ActionSpec, PluginSpec
from ringwise.manifests.objects.volcano_names import VOLCANO_ACTIONS, VOLCANO_PLUGINS, VolcanoName
from ringwise.scheduler.defaults import BUILT_IN

_TABLE = re.compile(r"<!-- table of (?P<what>plugins|actions) -->\n.*?<!-- end of table -->\n", re.DOTALL)


def migration_page(page: str) -> str:
    """The page with new tables."""

    def table(found: re.Match[str]) -> str:
        rows = _plugins() if found["what"] == "plugins" else _actions()
        head = [
            "",
            f"| {found['what'][:-1]} | here | what it does here, what replaces it, what is lost |",
            "|---|---|---|",
        ]
        lines = "\n".join([*head, *rows, ""])
        return f"<!-- table of {found['what']} -->\n{lines}\n<!-- end of table -->\n"

    return _TABLE.sub(table, page)


def _plugins() -> list[str]:
    return _rows(BUILT_IN.plugins, VOLCANO_PLUGINS)


def _actions() -> list[str]:
    return _rows(BUILT_IN.actions, VOLCANO_ACTIONS)


def _rows(
    ours: Mapping[str, PluginSpec] | Mapping[str, ActionSpec], theirs: Mapping[str, VolcanoName]
) -> list[str]:
    rows = [f"| `{name}` | works | {spec.summary} |" for name, spec in ours.items()]
    rows += [_elsewhere(name, row) for name, row in sorted(theirs.items())]
    return rows


def _elsewhere(name: str, row: VolcanoName) -> str:
    verdict = "warning" if not row.error_when else f"warning; error where {row.error_when}"
    return f"| `{name}` ({row.purpose}) | {verdict} | {row.note} |"
