"""What an earlier version wrote is still read, and the names it printed are still printed.

The folder `format-1` was recorded with the version that wrote journals and labs of format 1
(`python -m tests.compatibility.record`). It is never recorded anew to make a test pass: a name in it that
goes, or a file that is no longer read, needs a new format number, a converter and a line in the CHANGELOG.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.metrics.prometheus import Metrics
from ringwise.reasons import Stage
from ringwise_bench.docs.reasons_reference import all_kinds
from tests.compatibility.record import FURTHER_TIME, LATER, QUERIES, SEEDS, place_answer
from tests.lab.rig import SMALL, Terminal, running
from tests.tools.documents import decisions, field_paths, first_difference, known_before

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).parent / "format-1"
#: Recorded decisions that a rule has changed since. The files are still read, the answers differ.
DECIDED_OTHERWISE = {21: "S1: a job whose live pods carry marks is no padding job"}
#: Recorded answers in which the reason of a pending job counted what was free in the middle of the cycle.
#: It counts what is free after it. And a node that two reasons refuse was named with the other one.
SAID_OTHERWISE = frozenset({14, 25})
#: The first line of a recorded journal of the lab that is decided otherwise: another victim is chosen after
#: two minutes, not after sixteen.
DECIDED_OTHERWISE_FROM = {"journal.jsonl": 20}
NAMES: dict[str, Any] = json.loads((RECORDED / "names.json").read_text(encoding="utf-8"))


@cache
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress((RECORDED / "expected.json.xz").read_bytes()))
    return found


def unpack(name: str, folder: Path) -> None:
    with tarfile.open(RECORDED / name) as tar:
        tar.extractall(folder, filter="data")


def run_json(*arguments: str) -> Any:
    ran = CliRunner().invoke(cli, list(arguments))
    assert ran.exit_code == 0, (arguments, ran.output, ran.exception)
    return json.loads(ran.stdout)


#: The documents were recorded in version 1.
OLD = ("--schema-version", "1")


def missing_fields(name: str, document: Any) -> set[str]:
    """Fields that were printed before and are not any more."""
    return set(NAMES["fields"][name]) - field_paths(document)


# -- the lab -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What this version shows of the recorded lab, now and after more time has passed in it."""
    folder = tmp_path_factory.mktemp("lab")
    unpack("lab.tar.xz", folder)
    terminal = Terminal(folder)
    found: dict[str, Any] = {}
    # The nodes are those of the folder, whatever the settings of a new lab would be.
    with running(folder, replace(SMALL, speed=None)):
        for name, question in QUERIES.items():
            found[name] = terminal.json(" ".join((*question, *OLD)))
        terminal.ok(f"advance {FURTHER_TIME}")
        for name in LATER:
            found[f"{name} later"] = terminal.json(" ".join((*QUERIES[name], *OLD)))
    found["top"]["status"].pop("folder")
    return found


def test_the_recorded_lab_has_everything_a_lab_can_hold() -> None:
    """Otherwise the tests below would show less than they promise."""
    jobs = expected()["lab"]["get jobs"]["jobs"]
    assert {job["kind"] for job in jobs} == {"vcjob", "PodGroup", "Pod"}
    assert {job["outcome"] for job in jobs} == {"placed", "waiting", "refused", "ended"}
    nodes = expected()["lab"]["get nodes"]["nodes"]
    assert any(node["switch"] for node in nodes)
    assert any(node["superpod"] is not None for node in nodes)
    assert any(node["cordoned"] for node in nodes)
    assert any(chips["faulty"] for node in nodes for chips in node["chips"])
    assert any(chips["network_faulty"] for node in nodes for chips in node["chips"])
    assert len(expected()["lab"]["get queues"]["queues"]) > 3


@pytest.mark.parametrize("name", [*QUERIES, *(f"{name} later" for name in LATER)])
def test_a_lab_folder_of_format_1_is_opened_and_goes_on(lab: dict[str, Any], name: str) -> None:
    """The same nodes, jobs, pods, queues and held chips, and the same decisions afterwards."""
    before, after = expected()["lab"][name], lab[name]
    # A list without entries shows no fields of them.
    shown = [field for field in missing_fields(name, after) if after.get(field.partition("[]")[0]) != []]
    assert shown == []
    known = known_before(before, after)
    if name in ("top", "top later"):
        # Faulty nodes are published now, too, and PodGroups are marked by their controller.
        for document in (before, known):
            for command in ("Publish", "CreateGroup"):
                document["status"]["commands"].pop(command, None)
    today = without_needless_superpods(in_words_of_today(before))
    jobs = in_words_of_today(expected()["lab"]["get jobs later" if name.endswith(" later") else "get jobs"])
    count_as_today(today, jobs["jobs"])
    if name == "capacity":
        # A taint dedicates the node closed-0: its chips are free now, for pods that tolerate the taint.
        for document in (today, known):
            board = document["boards"][0]
            board["chips"]["free"] += board["chips"].pop("closed")
            board.pop("shapes")
        # A faulty chip that a pod holds counts as both.
        assert known["boards"][0]["chips"].pop("faulty") > today["boards"][0]["chips"].pop("faulty")
    if name == "get nodes later":
        # A chip was kept for a job that has waited long, although it fits where chips come free later:
        # node-13 comes free last; the two chips that are free on node-8 are for others.
        for document, kept, free in ((today, "node-8", "node-13"), (known, "node-13", "node-8")):
            chips = {node["name"]: node["chips"][0] for node in document["nodes"]}
            assert len(chips[kept].pop("reserved")) == 8
            assert chips[free].pop("reserved") == []
            for one in (chips[kept], chips[free]):
                one.pop("free")
    if name == "doctor":
        # The reports of a lab are never stale: they are written in virtual time.
        today["findings"] = [one for one in today["findings"] if one["code"] != "report-stale"]
        today["warnings"] = known["warnings"]
    if name == "why running":
        # It is told now that a fault hits the job.
        assert known.pop("faults")
    if name == "why pending":
        # Its nearest miss was the node closed-0, which it does not tolerate; what helps is tried on others.
        # Of a node that two reasons refuse the other one was counted.
        assert {one["node"] for one in today["near_misses"]} - {one["node"] for one in known["near_misses"]}
        assert sum(today["refusals"].values()) == sum(known["refusals"].values())
        for document in (today, known):
            for field in ("near_misses", "refusals", "cures"):
                document.pop(field)
    assert first_difference(decisions(today), decisions(known)) is None


def without_needless_superpods(document: Any) -> Any:
    """Nodes of boards without SuperPoDs miss none: they are no finding any more."""
    for name in ("findings", "problems"):
        for one in [one for one in document.get(name, ()) if one["code"] == "superpod-id-missing"]:
            document[name].remove(one)
            if "severity" in one:
                document["warnings"] -= 1
    return document


def count_as_today(document: Any, jobs: list[dict[str, Any]]) -> None:
    """Jobs are counted by the outcome that is shown for them."""
    for queue in document.get("queues", ()):
        outcomes = [job["outcome"] for job in jobs if job["queue"] == queue["name"]]
        queue["waiting"] = outcomes.count("pending")
    if "status" in document:
        outcomes = [job["outcome"] for job in jobs]
        document["status"] |= {"waiting": outcomes.count("pending"), "refused": outcomes.count("refused")}


@cache
def reasons_of_validation() -> frozenset[str]:
    return frozenset(kind.code for kind in all_kinds() if kind.stage is Stage.VALIDATE)


def in_words_of_today(recorded: Any) -> Any:
    """A lab says what `place` says: a job that waits is pending, also when only more nodes would help it."""
    if isinstance(recorded, list):
        return [in_words_of_today(item) for item in recorded]
    if not isinstance(recorded, dict):
        return recorded
    today = {key: in_words_of_today(value) for key, value in recorded.items()}
    curable = (recorded.get("reason") or {}).get("code") not in reasons_of_validation()
    if recorded.get("outcome") == "waiting" or (recorded.get("outcome") == "refused" and curable):
        today["outcome"] = "pending"
    return today


# -- journals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["journal.jsonl", "journal.1.jsonl"])
def test_a_journal_of_a_lab_of_format_1_is_decided_alike(name: str, tmp_path: Path) -> None:
    unpack("lab.tar.xz", tmp_path)
    ran = CliRunner().invoke(cli, ["replay", str(tmp_path / name), "-o", "json"])
    found, line = json.loads(ran.stdout), DECIDED_OTHERWISE_FROM.get(name)
    assert found["identical"] == (line is None)
    assert (found["difference"] or {}).get("line") == line
    assert found["batches"] > 15
    assert found["commands"] > 50


def test_a_changed_decision_in_a_recorded_journal_is_found(tmp_path: Path) -> None:
    unpack("lab.tar.xz", tmp_path)
    journal = tmp_path / "journal.1.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if '"type":"Bind"' in line)
    lines[at] = lines[at].replace('"chips":[0', '"chips":[1', 1)
    journal.write_text("".join(lines), encoding="utf-8")
    ran = CliRunner().invoke(cli, ["replay", str(journal), "-o", "json"])
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["difference"]["line"] == at + 1


def test_other_words_in_a_recorded_journal_are_no_difference(tmp_path: Path) -> None:
    unpack("lab.tar.xz", tmp_path)
    journal = tmp_path / "journal.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    alike = lines[: DECIDED_OTHERWISE_FROM["journal.jsonl"] - 1]
    text, count = re.subn(r'"message":"[^"]+"', '"message":"other words"', "".join(alike))
    journal.write_text(text, encoding="utf-8")
    assert count > 5
    assert run_json("replay", str(journal), "-o", "json")["identical"]
    journal.write_text(text.replace('"code":"gang-incomplete"', '"code":"other-code"'), encoding="utf-8")
    assert CliRunner().invoke(cli, ["replay", str(journal)]).exit_code == 1


@pytest.fixture(scope="module")
def place_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    unpack("place.tar.xz", folder)
    return folder


@pytest.mark.parametrize("seed", SEEDS)
def test_a_journal_of_place_of_format_1_is_decided_alike(seed: int, place_folder: Path) -> None:
    ran = CliRunner().invoke(cli, ["replay", str(place_folder / f"{seed}.journal.jsonl"), "-o", "json"])
    found = json.loads(ran.stdout)
    assert found["identical"] == (seed not in DECIDED_OTHERWISE)
    assert ran.exit_code == (seed in DECIDED_OTHERWISE)
    assert found["events"] > 10


@pytest.mark.parametrize("seed", SEEDS)
def test_place_answers_as_before(seed: int, place_folder: Path) -> None:
    before, answer = expected()["place"][str(seed)], place_answer(run_json, place_folder, seed)
    assert field_paths(before) - field_paths(answer) == set()
    same = seed not in DECIDED_OTHERWISE and seed not in SAID_OTHERWISE
    known = known_before(before, answer)
    assert (first_difference(decisions(before), decisions(known)) is None) == same
    if seed in SAID_OTHERWISE:
        # Nothing else differs.
        left, right = without_reasons(decisions(before)), without_reasons(decisions(known))
        assert first_difference(left, right) is None


def without_reasons(document: Any) -> Any:
    """The document without the reasons of jobs, which have their own counts."""
    if isinstance(document, dict):
        return {key: without_reasons(value) for key, value in document.items() if key != "reason"}
    return [without_reasons(item) for item in document] if isinstance(document, list) else document


def test_the_recorded_answers_have_all_fields_of_place() -> None:
    assert missing_fields("place", list(expected()["place"].values())) == set()


# -- names ---------------------------------------------------------------------------------------


def test_reason_codes_stay() -> None:
    page = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^### `([a-z0-9-]+)`$", page, re.MULTILINE))
    assert len(NAMES["reason codes"]) > 90
    assert set(NAMES["reason codes"]) - known == set()


def test_metrics_stay_with_their_types_and_labels() -> None:
    known = {family.name: [family.kind, *family.labels] for family in Metrics().families()}
    assert {name: known.get(name) for name in NAMES["metrics"]} == NAMES["metrics"]


def test_scripts_stay() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(NAMES["scripts"]) - set(project["scripts"]) == set()


@pytest.mark.process
def test_plugins_are_found_under_the_entry_point_group_of_before(tmp_path: Path) -> None:
    """An installed package that registers a plugin in the group makes its name known to the configuration."""
    (tmp_path / "third_party.py").write_text(
        "class Quiet:\n    def open(self, session): pass\n\ndef quiet(*arguments): return Quiet()\n"
    )
    configuration = tmp_path / "volcano-scheduler.conf"
    configuration.write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: quiet\n')
    command = [sys.executable, "-c", "from ringwise.cli.main import main; main()", "place"]
    command += ["-f", str(ROOT / "examples" / "cluster.yaml"), "--config", str(configuration), "-o", "json"]
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])

    def run() -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    unknown = run()
    assert unknown.returncode == 2
    assert "quiet" in unknown.stderr
    metadata = tmp_path / "third_party-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    group = NAMES["entry-point group"]
    (metadata / "entry_points.txt").write_text(f"[{group}]\nquiet = third_party:quiet\n")
    known = run()
    assert known.returncode == 0, known.stderr
