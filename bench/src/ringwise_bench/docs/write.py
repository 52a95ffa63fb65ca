"""Write the pages that are made from the code: `python -m ringwise_bench.docs.write FOLDER`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib.metadata import metadata
from pathlib import Path

from ringwise.cli.commands import cli
from ringwise.cli.exit_codes import MEANINGS
from ringwise.device.metrics import DeviceMetrics
from ringwise.framework.budget import JOB_STEPS, NAMESPACE_STEPS, NAMESPACE_STEPS_A_SECOND, POD_STEPS
from ringwise.framework.registry import ActionSpec, PluginSpec
from ringwise.manifests.objects.volcano_names import VOLCANO_ACTIONS, VOLCANO_PLUGINS, VolcanoName
from ringwise.manifests.text.limits import LIMITS
from ringwise.metrics.families import MetricSet
from ringwise.metrics.prometheus import Metrics
from ringwise.scheduler.core.job_backoff import AFTER_COST
from ringwise.scheduler.core.reservation import ENDED_STEPS, TRIED_STEPS
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.views.schemas import DOCUMENTS, PRINT_KUBERNETES_OBJECTS, find_kind, schema_text
from ringwise_bench.docs.boards_reference import boards_parts
from ringwise_bench.docs.commands_reference import commands_parts
from ringwise_bench.docs.labels_reference import labels_parts
from ringwise_bench.docs.parts import filled, table
from ringwise_bench.docs.public_names import names_parts
from ringwise_bench.docs.reasons_reference import reasons_parts
from ringwise_bench.docs.rules_reference import rules_table
from ringwise_bench.docs.settings_reference import settings_parts
from ringwise_bench.docs.switches_page import drawn_page
from ringwise_bench.docs.volcano_metrics import volcano_metrics_table


def pages(folder: Path) -> dict[str, str]:
    """The pages of this folder with what is made from the code; the rest of them is written by hand."""
    made = {
        "reference/boards.md": boards_parts(),
        "reference/commands.md": commands_parts(cli, {int(code): text for code, text in MEANINGS.items()}),
        "develop/public-names.md": names_parts(),
        "develop/rules.md": {"rules": rules_table()},
        "reference/metrics.md": {
            "scheduler": _metrics(Metrics()),
            "device plugin": _metrics(DeviceMetrics()),
        },
        "reference/labels.md": labels_parts(),
        "reference/licenses.md": {"licenses": _licenses()},
        "guides/migration.md": {
            "plugins": _volcano("plugin", BUILT_IN.plugins, VOLCANO_PLUGINS),
            "actions": _volcano("action", BUILT_IN.actions, VOLCANO_ACTIONS),
        },
        "reference/object-limits.md": _limits(),
        "reference/reasons.md": reasons_parts(),
        "reference/schemas.md": _schemas(),
        "reference/settings.md": settings_parts(),
        "reference/volcano-metrics.md": {"metrics": volcano_metrics_table()},
    }
    texts = {name: filled(_read(folder / name), parts) for name, parts in made.items()}
    switches = "concepts/switches.md"
    return {**texts, switches: drawn_page(_read(folder / switches), folder.resolve().parent)}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _metrics(metrics: MetricSet) -> str:
    rows = (
        (
            f"`{family.name}_total`" if family.kind == "counter" else f"`{family.name}`",
            family.kind,
            ", ".join(f"`{label}`" for label in family.labels),
            family.help,
        )
        for family in sorted(metrics.families(), key=lambda family: family.name)
    )
    return table(("metric", "type", "labels", "meaning"), rows)


def _licenses() -> str:
    requirements = Path(__file__).parents[4] / "requirements.txt"
    rows = []
    for name, version in re.findall(r"^(\S+)==([^\s;\\]+)", _read(requirements), re.M):
        about = metadata(name)
        classifiers = [one for one in about.get_all("Classifier") or () if one.startswith("License ::")]
        declared = about["License-Expression"] or about["License"] or classifiers[0].rpartition(" :: ")[2]
        rows.append((f"`{name}`", version, declared))
    return table(("package", "version", "license"), rows)


def _volcano(
    what: str,
    ours: Mapping[str, PluginSpec] | Mapping[str, ActionSpec],
    theirs: Mapping[str, VolcanoName],
) -> str:
    rows = [(f"`{name}`", "works", spec.summary) for name, spec in ours.items()]
    for name, row in sorted(theirs.items()):
        verdict = "warning" if not row.error_when else f"warning; error if {row.error_when}"
        rows.append((f"`{name}` ({row.purpose})", verdict, row.note))
    return table((what, "status", "effect, replacement, or limitation"), rows)


def _limits() -> dict[str, str]:
    sizes = ((limit.object, limit.counted, f"{limit.most:,}") for limit in LIMITS)
    steps = (
        ("a job in one cycle", f"{JOB_STEPS:,}, and {POD_STEPS:,} more for each of its pods"),
        (
            "all jobs of one namespace",
            f"{NAMESPACE_STEPS:,}; {NAMESPACE_STEPS_A_SECOND:,} are added every second",
        ),
        (
            "all attempts to reserve nodes for long-pending jobs",
            f"the same; {TRIED_STEPS:,} for each attempt, {ENDED_STEPS:,} for each pod that must end first",
        ),
    )
    return {
        "sizes": table(("objects", "what is counted", "at most"), sizes),
        "steps": f"{table(('work', 'limit in steps'), steps)}\n\n"
        f"A job that exceeds its limit is retried after 2, 4, 8 ... seconds, at most {AFTER_COST.limit}.",
    }


def _schemas() -> dict[str, str]:
    rows = (
        (
            kind.name,
            f"`{kind.schema}`",
            ", ".join(f"`{one}`" for one in (*kind.commands, *kind.requests)),
            kind.summary,
        )
        for kind in DOCUMENTS
    )
    return {
        "documents": table(("name", "schema", "source", "content"), rows),
        "commands that print Kubernetes objects": " and ".join(
            f"`{one}`" for one in PRINT_KUBERNETES_OBJECTS
        ),
        "example": f"```\n$ ringwise schema advance\n{schema_text(find_kind('advance'))}```",
    }


def write_pages(folder: Path) -> None:
    for name, page in pages(folder).items():
        (folder / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
