"""Write what is made from the code, pages and schemas: `python -m ringwise_bench.docs.write FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from ringwise.apps.install.deployment import PLAIN, chart, watched_rules_file
from ringwise.apps.install.steps import printed
from ringwise.cli.commands import cli
from ringwise.cli.exit_codes import MEANINGS
from ringwise.views import schemas
from ringwise.views.schemas import DOCUMENTS, schema_text
from ringwise_bench.docs.boards_reference import boards_page
from ringwise_bench.docs.commands_reference import commands_page
from ringwise_bench.docs.metrics_reference import metrics_page
from ringwise_bench.docs.migration_page import migration_page
from ringwise_bench.docs.object_limits_reference import object_limits_page
from ringwise_bench.docs.reasons_reference import reasons_page
from ringwise_bench.docs.schemas_reference import schemas_page
from ringwise_bench.docs.settings_reference import settings_page
from ringwise_bench.docs.switches_page import drawn_page


def pages(folder: Path) -> dict[str, str]:
    """The generated pages of this folder.

    Of `switches.md` only the drawings are generated, of `migration.md` only the tables, and `boards.md` ends
    with a part that is written by hand.
    """
    migration = (folder / "migration.md").read_text(encoding="utf-8")
    switches = (folder / "switches.md").read_text(encoding="utf-8")
    return {
        "boards.md": boards_page((folder / "boards.md").read_text(encoding="utf-8")),
        "commands.md": commands_page(cli, {int(code): text for code, text in MEANINGS.items()}),
        "metrics.md": metrics_page(),
        "migration.md": migration_page(migration),
        "object-limits.md": object_limits_page(),
        "reasons.md": reasons_page(),
        "schemas.md": schemas_page(),
        "settings.md": settings_page(),
        "switches.md": drawn_page(switches, folder.resolve().parent),
    }


def write_pages(folder: Path) -> None:
    for name, page in pages(folder).items():
        (folder / name).write_text(page, encoding="utf-8")


def write_schemas() -> None:
    """The files that the package ships, in the sources."""
    for kind in DOCUMENTS:
        (Path(schemas.__file__).parent / kind.file).write_text(schema_text(kind), encoding="utf-8")


def write_manifests() -> None:
    """The rights of the chart, and the plain manifests with them."""
    deploy = Path(str(chart())).parents[1]
    (deploy / "helm/ringwise/files/rbac-watched.yaml").write_text(watched_rules_file(), encoding="utf-8")
    for name, choices in PLAIN.items():
        (deploy / "manifests" / name).write_text(printed(choices), encoding="utf-8")


if __name__ == "__main__":
    write_schemas()
    write_manifests()
    write_pages(Path(sys.argv[1]))
