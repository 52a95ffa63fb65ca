"""Alerts and the Grafana dashboard of the chart: every metric and label in them exists, every rule parses."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from ringwise.cli.commands import cli
from ringwise_bench.checkout import CHART

ROOT = Path(__file__).parents[2]
ALERTS = CHART / "files" / "alerts.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"
GRAFANA = CHART / "files" / "grafana-dashboard.json"
PROMTOOL = shutil.which("promtool")
_METRIC = re.compile(r"\b(?:(?:ringwise|volcano|machine|npu|kube|apiserver)_[a-z0-9_]+|up\b)")
#: Metrics of other programs, and those of their labels that are used.
_FOREIGN = {
    "up": ("gauge", frozenset({"container"})),
    "kube_deployment_status_replicas_available": ("gauge", frozenset({"deployment"})),
    "apiserver_admission_webhook_fail_open_count": ("counter", frozenset({"name"})),
}
_ENDINGS = ("_bucket", "_sum", "_count")
#: Labels that Prometheus adds, and that histograms have.
_OTHER_LABELS = frozenset({"le", "pod", "instance", "container"})


@cache
def metrics() -> dict[str, tuple[str, frozenset[str]]]:
    """Metric -> its type and its labels, from the reference page that is made from the code."""
    rows = re.findall(
        r"^\| `([a-z0-9_]+)` \| (\w+) \| (.*?) \|",
        (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8"),
        re.M,
    )
    return {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str, str]]:
    """(where, expression, text with the names of labels)"""
    for rule in rules():
        texts = " ".join(rule["annotations"].values())
        yield rule["alert"], rule["expr"], " ".join(re.findall(r"\$labels\.(\w+)", texts))
    for panel in json.loads(GRAFANA.read_text(encoding="utf-8"))["panels"]:
        for target in panel["targets"]:
            labels = " ".join(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            yield panel["title"], target["expr"], labels


def known_metric(name: str) -> tuple[str, frozenset[str]] | None:
    found = metrics().get(name) or _FOREIGN.get(name)
    if found is not None:
        return None if found[0] == "histogram" else found
    for ending in _ENDINGS:
        family = metrics().get(name.removesuffix(ending)) if name.endswith(ending) else None
        if family is not None and family[0] == "histogram":
            return family
    return None


@pytest.mark.parametrize(("where", "expression", "shown"), list(expressions()))
def test_every_metric_and_every_label_exists(where: str, expression: str, shown: str) -> None:
    names = set(_METRIC.findall(re.sub(r'"[^"]*"', '""', expression)))
    assert names, where
    labels = set(shown.split())
    for chosen in re.findall(r"\{([^}]*)\}", expression):
        labels |= set(re.findall(r"(\w+)\s*[=!]", chosen))
    for grouped in re.findall(r"\b(?:by|without|on|ignoring) \(([^)]*)\)", expression):
        labels |= set(re.findall(r"\w+", grouped))
    known: set[str] = set(_OTHER_LABELS)
    for name in names:
        metric = known_metric(name)
        assert metric is not None, f"{where}: there is no metric {name}"
        known |= metric[1]
    assert labels <= known, f"{where}: {labels - known}"


@pytest.mark.parametrize(("where", "expression", "_shown"), list(expressions()))
def test_brackets_are_closed_and_rates_are_of_counters(where: str, expression: str, _shown: str) -> None:
    depth: list[str] = []
    for sign in re.sub(r'"[^"]*"', "", expression):
        if sign in "([{":
            depth.append({"(": ")", "[": "]", "{": "}"}[sign])
        elif sign in ")]}":
            assert depth, where
            assert depth.pop() == sign, where
    assert not depth, where
    for name in re.findall(r"(?:rate|increase)\((\w+)", expression):
        assert name.endswith(("_total", "_bucket", "_sum", "_count")), f"{where}: {name} is not a counter"
    for name in re.findall(r"\b(\w+_total)\b", expression):
        assert re.search(rf"(?:rate|increase)\({name}", expression), f"{where}: {name} only ever grows"


def test_states_of_chips_are_those_that_are_counted() -> None:
    from ringwise.metrics.prometheus import Metrics
    from ringwise.scheduler.node_states import CHIP_STATES

    made = Metrics()
    made.chips("huawei.com/Ascend910", 8, dict.fromkeys(CHIP_STATES, 1), 1)
    counted = set(re.findall(r'ringwise_chips\{.*?state="(\w+)"', made.text().decode()))
    named = {
        state
        for _, text, _ in expressions()
        for states in re.findall(r'state=~?"([\w|]+)"', text)
        for state in states.split("|")
    }
    assert named <= counted


def test_the_alert_on_unusable_chips_counts_all_that_it_describes() -> None:
    (rule,) = (one for one in rules() if one["alert"] == "RingwiseChipsUnusable")
    assert rule["annotations"]["description"].startswith(
        "Chips are faulty, isolated or on nodes that are not schedulable"
    )
    unusable, _, total = rule["expr"].partition("/")
    assert 'state=~"faulty|isolated|unschedulable"' in unusable
    # The states overlap, so their sum may be larger than the number of chips.
    assert "ringwise_chip_capacity" in total


def test_alerts_have_what_a_person_needs() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


@pytest.mark.parametrize("name", [rule["alert"] for rule in rules()])
def test_every_alert_has_a_runbook(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    assert re.findall(r"^#+ .*", text, re.M) == [
        f"# {name}",
        *("## Meaning", "## Impact", "## Diagnosis", "## Mitigation"),
    ]
    diagnosis = text.partition("## Diagnosis")[2].partition("## Mitigation")[0]
    assert re.search(r"^kubectl ", diagnosis, re.M)


def test_there_is_no_runbook_without_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {rule["alert"] for rule in rules()}


def test_the_commands_of_the_runbooks_exist() -> None:
    typed = {
        (path.stem, line)
        for path in RUNBOOKS.glob("*.md")
        for line in re.findall(r"kubectl ringwise ([^`#\n]+)", path.read_text(encoding="utf-8"))
    }
    assert len(typed) > 10
    for page, line in typed:
        context = click.Context(cli)
        words = shlex.split(line)
        command: click.Command = cli
        while isinstance(command, click.Group):
            found = command.get_command(context, words[0])
            assert found is not None, f"{page}: {line}"
            command, words = found, words[1:]
        with command.make_context(words[0] if words else "", words, resilient_parsing=False) as made:
            assert made.params is not None


def test_panels_do_not_overlap() -> None:
    panels = json.loads(GRAFANA.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules() -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_accepts_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    """They are written as rules; Grafana replaces the variables before Prometheus reads them."""
    assert PROMTOOL is not None
    made = [
        {"record": f"panel:expression:{index}", "expr": expression.replace("$__rate_interval", "5m")}
        for index, (_, expression, _) in enumerate(expressions())
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": made}]}), encoding="utf-8")
    done = subprocess.run([PROMTOOL, "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(made)} rules" in done.stdout
