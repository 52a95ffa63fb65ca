"""What an earlier version wrote is read, and what a version wrote that is not known is refused.

The samples are those of `record.py`; docs/develop/testing.md says how a new format adds one.
"""

from __future__ import annotations

import io
import json
import re
import sqlite3
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.journal.files import JournalFiles
from ringwise.apps.journal.format import JournalError, ReadBatch, open_journal
from ringwise.apps.lab.client import RefusedByLabError
from ringwise.apps.sources.lab import LabSource
from ringwise.cli.commands import cli
from ringwise.device.ledger_file import LedgerFile
from ringwise.embed.store import Store, StoreError
from ringwise.manifests.accounts.document import NotAnAccountError, read_document
from ringwise.messages import events as ev
from ringwise.metrics.prometheus import Metrics
from ringwise.scheduler.cache.record_tables import read_tables
from ringwise.scheduler.defaults import default_configuration
from ringwise.views.schemas import DOCUMENTS, DocumentKind, find_kind, json_schema
from tests.builders.records import restored
from tests.device.test_ledger_file import book
from tests.lab.rig import Terminal, nodes, running
from tests.tools.schemas import SAMPLES, document_file

JOURNAL = "journal.jsonl"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    with tarfile.open(SAMPLES / "lab-v1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


# -- samples are read ------------------------------------------------------------------------------------


def test_a_lab_folder_goes_on(lab: Path) -> None:
    terminal = Terminal(lab)
    with running(lab, nodes(3)):
        states = {one["name"]: one["state"] for one in terminal.json("get jobs")["jobs"]}
        assert states == {"small": "suspended", "train": "finished", "waits": "scheduled"}
        report = terminal.json("report")
        assert sum(row["allocated_chip_hours"] for row in report["rows"]) > 1
        terminal.ok("resume small")
        terminal.ok("advance 1m")
        assert "lab/small-worker-0" in terminal.seats()


def test_a_journal_is_decided_alike(lab: Path) -> None:
    ran = CliRunner().invoke(cli, ["replay", str(lab / JOURNAL), "-o", "json"])
    found = json.loads(ran.stdout)
    assert (found["identical"], found["note"]) == (True, None)
    assert found["batches"] > 10
    assert found["commands"] > 30


def recorded() -> list[ReadBatch]:
    with closing(open_journal(SAMPLES / "records-v2.jsonl").batches) as batches:
        return list(batches)


def records_in(events: Iterable[ev.Event]) -> dict[str, Any]:
    """The tables of the record by data key, as JSON."""
    return {
        key: json.loads(text)
        for event in events
        if isinstance(event, ev.LeaderRecordRead)
        for key, text in event.tables.items()
    }


@pytest.mark.parametrize("batch", recorded(), ids=lambda batch: batch.section.scheduler)
def test_the_records_of_a_leader_are_known_to_the_next_one(batch: ReadBatch) -> None:
    scheduler = new_scheduler(batch.section.configuration)
    scheduler.handle(batch.events, batch.now, ev.Decide.NOTHING)
    assert records_in(scheduler.view.current_events()) == records_in(batch.events) != {}
    assert not scheduler.view.history.incidents


def test_there_is_a_sample_of_every_record() -> None:
    tables = new_scheduler(default_configuration())._context.record.all
    found = {name for batch in recorded() for name in records_in(batch.events)}
    # Another sample has the table of throttled namespaces.
    assert {*found, "throttled.json"} == {f"{table.name}.json" for table in tables}


def containers(value: Any, path: str) -> Iterator[tuple[str, bool]]:
    """Every list and object in a record, and whether it is filled. Keys with digits are names or ranks."""
    if isinstance(value, dict):
        yield path, bool(value)
        for key, item in value.items():
            yield from containers(item, f"{path}.{'*' if re.search(r'[0-9]', key) else key}")
    elif isinstance(value, list):
        yield path, bool(value)
        for item in value:
            yield from containers(item, f"{path}[]")


def test_no_list_of_a_record_is_empty_in_every_sample() -> None:
    """The format of what no sample holds could be changed without a failing test."""
    found = [
        one
        for batch in recorded()
        for name, record in records_in(batch.events).items()
        for one in containers(record, name)
    ]
    empty = {path for path, _ in found} - {path for path, is_filled in found if is_filled}
    assert empty == set()


def test_throttled_namespaces_of_a_leader_are_known_to_the_next_one() -> None:
    scheduler = new_scheduler(default_configuration())
    record = ev.LeaderRecordRead(entries("throttled-v2.json"), takes_over=False)
    scheduler.handle([record], 0, ev.Decide.NOTHING)
    assert list(scheduler.view.history.throttled) == ["flood"]


def test_accounting_documents_are_read(lab: Path) -> None:
    (file,) = (lab / "accounting").iterdir()
    assert {job.name for job in read_document(file.read_text()).jobs} >= {"train", "small"}


def test_mounts_of_the_device_plugin_are_read() -> None:
    found = LedgerFile(SAMPLES / "mounts-v1.jsonl").load()
    assert (found.mounts, found.claims) == (book("a", "b").mounts, book("a", "b").claims)


def test_a_compressed_record_is_read() -> None:
    tables = entries("compressed-record-v2.json")
    assert '{"compressed":' in tables["fault-jobs.json"]
    (job,) = restored(tables).of(new_scheduler(default_configuration())._context.record.all[0]).values()
    assert (job.key, len(job.deletions)) == ("default/train", 1)


def entries(name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((SAMPLES / name).read_text())
    return found


def test_a_support_bundle_is_read() -> None:
    bundle = str(SAMPLES / "support-bundle-v1.tar.gz")
    ran = CliRunner().invoke(cli, ["get", "jobs", "-f", bundle, "-o", "json"])
    assert sorted(one["state"] for one in json.loads(ran.stdout)["jobs"]) == ["pending", "scheduled"]


@pytest.mark.parametrize("kind", DOCUMENTS, ids=lambda kind: kind.name)
def test_no_field_of_a_document_is_removed_and_none_has_another_type(kind: DocumentKind) -> None:
    """Fields may be added under one version: those of the sample must still be there."""
    schema = json_schema(kind)
    for part in schema["$defs"].values():
        part["additionalProperties"] = part.get("additionalProperties", False)
        part.pop("required", None)
    Draft202012Validator(schema).validate(json.loads(document_file(kind.schema).read_text()))


# -- another version is refused ----------------------------------------------------------------------------


def refused_journal(lab: Path) -> str:
    """Whatever else its header has."""
    file = lab / JOURNAL
    file.write_bytes(b'{"format":"ringwise-journal","version":2,"configuration":[]}\n')
    with pytest.raises(JournalError) as refused:
        open_journal(file)
    return str(refused.value)


def refused_journal_to_continue(lab: Path) -> str:
    file = lab / JOURNAL
    file.write_bytes(file.read_bytes().replace(b'"version":1', b'"version":2', 1))
    content = file.read_bytes()
    with pytest.raises(JournalError) as refused:
        JournalFiles(file, Metrics())
    assert file.read_bytes() == content
    return str(refused.value)


def refused_lab(lab: Path) -> str:
    with closing(sqlite3.connect(lab / "lab.db")) as base:
        base.execute("PRAGMA user_version = 2")
    content = (lab / "lab.db").read_bytes()
    with pytest.raises(StoreError) as refused:
        Store(lab / "lab.db")
    assert (lab / "lab.db").read_bytes() == content
    return str(refused.value)


def refused_accounts(lab: Path) -> str:
    (file,) = (lab / "accounting").iterdir()
    with pytest.raises(NotAnAccountError) as refused:
        read_document(file.read_text().replace('"version":1', '"version":2', 1))
    return str(refused.value)


def refused_bundle(tmp_path: Path) -> str:
    bundle = tmp_path / "bundle.tar.gz"
    with tarfile.open(SAMPLES / "support-bundle-v1.tar.gz") as sample, tarfile.open(bundle, "w:gz") as other:
        for entry in sample:
            file = sample.extractfile(entry)
            assert file is not None
            content = file.read().replace(b'journal","version":1', b'journal","version":2')
            other.addfile(entry, io.BytesIO(content))
    ran = CliRunner().invoke(cli, ["get", "jobs", "-f", str(bundle)])
    assert (ran.exit_code, ran.stdout) == (2, "")
    return ran.stderr


@pytest.mark.parametrize(
    "refused",
    [
        *(refused_journal, refused_journal_to_continue, refused_lab, refused_accounts, refused_bundle),
    ],
)
def test_another_version_is_refused_with_both_versions(refused: Callable[[Path], str], lab: Path) -> None:
    assert "unsupported version 2: this Ringwise reads version 1" in refused(lab)


def test_mounts_of_another_version_are_refused_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever else it has."""
    file = LedgerFile(tmp_path / "mounts.jsonl")
    file.path.write_text('{"version":2,"chips":{}}\n')
    assert (file.load().mounts, file.failures) == ([], 1)
    assert "unsupported version 2: this Ringwise reads version 1" in "".join(capsys.readouterr())


def test_accounting_documents_of_another_version_stay_as_they_are(lab: Path) -> None:
    (file,) = (lab / "accounting").iterdir()
    file.write_text(file.read_text().replace('"version":1', '"version":2', 1))
    content = file.read_bytes()
    terminal = Terminal(lab)
    with running(lab, nodes(3)):
        terminal.ok("advance 1h")
        (problem,) = terminal.json("report")["unreadable"]
        terminal.ok("advance 2d")
    assert problem.endswith("unsupported version 2: this Ringwise reads version 1")
    assert file.read_bytes() == content
    assert len(list((lab / "accounting").glob("*.json"))) > 1


@pytest.mark.parametrize("kind", DOCUMENTS, ids=lambda kind: kind.name)
def test_a_schema_of_another_version_is_refused(kind: DocumentKind) -> None:
    with pytest.raises(LookupError, match="/v2: unsupported version v2: this Ringwise reads version v1"):
        find_kind(f"ringwise.io/{kind.name}/v2")


def test_a_document_of_a_lab_of_another_version_is_refused() -> None:
    class OfAnotherVersion:
        version = "0.0.0"

        def ask(self, *_: Any, **__: Any) -> Any:
            return {"schema": "ringwise.io/nodes/v2", "nodes": []}

    source = LabSource(OfAnotherVersion())  # type: ignore[arg-type]
    with pytest.raises(RefusedByLabError, match="unsupported version v2: this Ringwise reads version v1"):
        source.get("nodes")


@pytest.mark.parametrize("batch", recorded(), ids=lambda batch: batch.section.scheduler)
def test_a_leader_ignores_records_of_another_version(batch: ReadBatch) -> None:
    """It decides as one that finds no records."""
    others = [_of_another_version(event) for event in batch.events]
    missing = [event for event in batch.events if not isinstance(event, ev.LeaderRecordRead)]
    assert others != list(batch.events) != missing
    decided = []
    for events in (others, missing):
        scheduler = new_scheduler(batch.section.configuration)
        scheduler.handle(events, batch.now)
        assert not scheduler.view.history.incidents
        decided.append(records_in(scheduler.view.current_events()))
    assert decided[0] == decided[1]


def _of_another_version(event: ev.Event) -> ev.Event:
    if not isinstance(event, ev.LeaderRecordRead):
        return event
    texts = {key: text.replace('"version":2', '"version":3', 1) for key, text in event.tables.items()}
    _, problems = read_tables(texts)
    assert set(problems.values()) == {"unsupported version 3: this Ringwise reads version 2"}
    return replace(event, tables=texts)
