"""`docs/develop/public-names.md` has every public name, and the decided names follow the conventions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ringwise.device.metrics import DeviceMetrics
from ringwise.metrics.prometheus import Metrics
from ringwise.views.schemas import DOCUMENTS
from ringwise_bench.checkout import CHART
from ringwise_bench.docs import public_names
from ringwise_bench.docs.public_names import SOURCES, decision, names_parts, read_decided

PAGE = (Path(__file__).parents[2] / "docs" / "develop" / "public-names.md").read_text(encoding="utf-8")
LISTED = set(re.findall(r"`([^`]+)`", PAGE))
#: Names in the sources that are public, found by how they look and not by where they are declared.
PATTERNS = {
    "metrics": r'"(ringwise_[a-z_]+)"',
    "annotations and labels": r"(?<!//)\b(ringwise\.io/[a-z-]*[a-z])(?![a-z0-9/-])",
    "flags": r'"(--[a-z][a-z-]+)"[,)]',
    "environment variables": r"\b(RINGWISE_[A-Z]+)\b",
}
#: Found in the sources and not public: a package, an example in a sentence, and a variable of click.
OTHERS = {"ringwise_bench", "ringwise.io/NAME", "RINGWISE_COMPLETE", "RINGWISE_PREFIX"}


@pytest.mark.parametrize("group", PATTERNS)
def test_every_name_in_the_sources_is_on_the_page(group: str) -> None:
    files = (*SOURCES.rglob("*.py"), *SOURCES.rglob("*.yaml"), *CHART.rglob("*.yaml"))
    texts = [file.read_text(encoding="utf-8") for file in files]
    found = {name for text in texts for name in re.findall(PATTERNS[group], text)} - OTHERS
    found -= {kind.schema.rpartition("/")[0] for kind in DOCUMENTS}
    assert found
    assert {name for name in found if not {name, f"{name}_total"} & LISTED} == set()


CONVENTIONS = {
    "commands": r"[a-z]+(-[a-z]+)*( [a-z]+(-[a-z]+)*)?",
    "flags": r"-[A-Za-z]|--[a-z0-9]+(-[a-z0-9]+)*",
    "documents": r"ringwise\.io/[a-z-]+/v1",
    "JSON fields": r"[a-z][a-z0-9]*(_[a-z0-9]+)*",
    "states": r"[a-z]+(-[a-z]+)*",
    "metrics": r"ringwise_[a-z]+(_[a-z]+)*",
    "metric labels": r"[a-z]+(_[a-z]+)*",
    "event reasons": r"[A-Z][A-Za-z]+",
    "reasons of pending jobs": r"[a-z]+(-[a-z]+)*",
    "annotations and labels": r"ringwise\.io/[a-z]+(-[a-z]+)*",
    "objects and data keys": r"ringwise[-.]?[a-z-]*|Ringwise[A-Z][A-Za-z]+",
    "environment variables": r"RINGWISE_[A-Z_]+",
    # Three are Volcano's and Huawei's.
    "settings": r"[a-z]+(-[a-z]+)*|forceEnqueue|presetVirtualDevice|useClusterInfoManager",
    "exit codes": r"\d+",
}
#: Words that language.md replaces, as parts of a name.
REPLACED = re.compile(
    r"(?<![a-z])(told|hurt|hurts|wish|aside|cure|cures|waits?|waiting|waited|kept|story|malformed|costly|burst|lent|"
    r"longest|verdict|refused|refusals?|asks|asked|believe|guess(es)?|neighbour|utilisation|troubles?)(?![a-z])"
)
#: Those of kubectl and Kubernetes; the others say what the scheduler waits for, in the usual word.
KEPT = {"--wait", "rack-wait-for-same-rack", "rack-wait-for-same-superpod", "superpod-wait-for-old-nodes"}
KEPT |= {"wait-for-planned-places", "wait-for-previous-nodes", "--kube-api-burst"}


@pytest.fixture(scope="module")
def names_of_groups() -> dict[str, public_names.Names]:
    return public_names.public_names(read_decided())


@pytest.mark.parametrize("group", CONVENTIONS)
def test_decided_names_follow_the_conventions(
    group: str, names_of_groups: dict[str, public_names.Names]
) -> None:
    decided, scopes = read_decided(), names_of_groups[group]
    names = {
        decision(decided.get(group, {}), scope, name) for scope, found in scopes.items() for name in found
    }
    names = {name for name in names if " " not in name or (group == "commands" and ":" not in name)}
    assert names
    assert {name for name in names if not re.fullmatch(CONVENTIONS[group], name)} == set()
    assert {name for name in names if REPLACED.search(name)} - KEPT == set()


def test_counters_and_histograms_have_the_endings_of_prometheus() -> None:
    decided = read_decided().get("metrics", {})
    for family in (*Metrics().families(), *DeviceMetrics().families()):
        today = f"{family.name}_total" if family.kind == "counter" else family.name
        if today.startswith("ringwise_"):
            name = decision(decided, "", today)
            assert name.endswith("_total") == (family.kind == "counter"), name
            assert family.kind != "histogram" or name.endswith("_duration_seconds"), name
            assert not re.search(r"_(hours|minutes|milliseconds|days)(_|$)", name), name


@pytest.mark.parametrize(
    ("group", "name", "new", "problem"),
    [
        ("JSON fields", "pending", "running", "two names of DashboardQueue become running"),
        ("flags", "run scheduler --journal", "--shadow", "two names of run scheduler become --shadow"),
        ("metrics", "ringwise_nothing", "ringwise_something", "metrics: ringwise_nothing does not exist"),
        ("flags", "top --affected", "--affected", "flags: top --affected does not exist"),
    ],
)
def test_decisions_that_cannot_be_carried_out_are_found(
    group: str, name: str, new: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided = {one: dict(names) for one, names in read_decided().items()}
    decided[group][name] = new
    monkeypatch.setattr(public_names, "read_decided", lambda: decided)
    with pytest.raises(ValueError, match=problem):
        names_parts()


def glossary() -> list[list[str]]:
    """The cells of every row."""
    text = (Path(__file__).parents[2] / "docs" / "develop" / "vocabulary.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    return [row for row in rows if row[0] != "term" and not row[0].startswith("---")]


def test_the_glossary_has_one_term_for_one_thing() -> None:
    terms = [term for row in glossary() for term in row[0].split(", ")]
    replaced = [word for row in glossary() for word in row[3].split(", ") if word]
    assert all(len(row) == 4 for row in glossary())
    assert sorted(set(terms)) == sorted(terms)
    assert sorted(set(replaced)) == sorted(replaced)
    assert set(terms) & set(replaced) == set()
    words = {word.partition(" (")[0] for word in replaced}
    assert {"told", "hurt", "wish", "aside", "cure", "waiter", "kept share", "way", "burst", "story"} <= words
