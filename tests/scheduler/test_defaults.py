"""The configuration without a file, and the reference page that is printed from the declarations."""

from __future__ import annotations

from typing import Any

from ringwise.framework.arguments import Argument
from ringwise.framework.configuration import ENABLE_FLAGS, SETTINGS, Settings
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from ringwise_bench.docs.settings_reference import settings_parts


def test_k_the_default_is_the_one_of_the_documents() -> None:
    configuration = default_configuration()
    assert configuration.actions == ("enqueue", "allocate", "backfill")
    assert [[plugin.name for plugin in tier.plugins] for tier in configuration.tiers] == [
        ["priority", "gang", "conformance", "topology910"],
        ["drf", "predicates", "proportion", "nodeorder", "binpack"],
    ]
    assert configuration.settings == Settings()


def test_the_reference_page_names_everything() -> None:
    page = "\n".join(settings_parts().values())
    tables = [spec.arguments or () for spec in BUILT_IN.plugins.values()]
    tables += [spec.arguments for spec in BUILT_IN.actions.values()]
    declared: list[Argument[Any]] = [
        row if isinstance(row, Argument) else row.pattern for table in tables for row in table
    ]
    names = [*SETTINGS, *(flag.key for flag in ENABLE_FLAGS.values()), *(row.name for row in declared)]
    assert len(names) > 60
    assert [name for name in names if f"| `{name}` |" not in page] == []
