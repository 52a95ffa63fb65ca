"""Journals: every event can be read back, decisions are repeated, errors name the line."""

from __future__ import annotations

import dataclasses
import enum
import io
import json
import types
from collections.abc import Mapping
from numbers import Rational
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.journal.format import (
    EVENT_TYPES,
    JournalError,
    JournalWriter,
    batch_line,
    header_line,
    open_journal,
)
from ringwise.apps.loading import cluster_events, job_events
from ringwise.apps.replay import replay
from ringwise.apps.web.snapshot import end_of_journal
from ringwise.cli.lab.replay import replay_command
from ringwise.framework.configuration import Configuration
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, SetGroupStatus
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from ringwise.scheduler.journal import Batch, Journal
from ringwise.state.model import Owner
from tests.builders.values import pod, seen
from tests.examples import examples

ROOT = Path(__file__).parents[2]
CONFIGURATIONS = [
    default_configuration(),
    *(
        read_configuration(path.read_bytes(), path.name, BUILT_IN)
        for path in sorted((ROOT / "tests/samples/configurations").glob("field-*.conf"))
    ),
]


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of an annotated type, made from its parts."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Configuration:
        return st.sampled_from(CONFIGURATIONS)
    if origin is Literal:
        return st.sampled_from(parts)
    if origin in (Union, types.UnionType):
        return st.one_of(*(values_of(part) for part in parts))
    if origin is tuple and parts[-1] is Ellipsis:
        return st.lists(values_of(parts[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values_of(part) for part in parts))
    if origin is Mapping:
        return st.dictionaries(values_of(parts[0]), values_of(parts[1]), max_size=2)
    if origin is frozenset:
        return st.frozensets(values_of(parts[0]), max_size=2)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return st.builds(
            kind, **{field.name: values_of(hints[field.name]) for field in dataclasses.fields(kind)}
        )
    simple: dict[Any, st.SearchStrategy[Any]] = {
        int: st.integers(-(2**63), 2**128 - 1),
        str: st.text(max_size=4),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        # Amounts of chips.
        Rational: st.one_of(st.integers(0, 2**53), st.fractions(0)),
        type(None): st.none(),
        Any: st.one_of(st.integers(0, 9), st.text(max_size=3)),
    }
    return simple[kind]


@pytest.mark.parametrize("kind", EVENT_TYPES.values(), ids=lambda kind: str(kind.__name__))
def test_every_event_survives_the_file(kind: type, tmp_path: Path) -> None:
    file = tmp_path / "journal"

    @settings(max_examples=examples(15))
    @given(values_of(kind), st.integers(0, 2**62))
    def holds(event: Any, now: int) -> None:
        batch = Batch(0, now, (event,), ())
        file.write_bytes(header_line(default_configuration(), ["volcano"]) + batch_line(batch))
        (read,) = open_journal(file).batches
        assert read.now == now
        assert read.events == (event,)

    holds()


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_configurations_survive_the_header(configuration: Configuration, tmp_path: Path) -> None:
    file = tmp_path / "journal"
    file.write_bytes(header_line(configuration, ["volcano", "mine"]))
    journal = open_journal(file)
    assert journal.first.configuration == configuration
    assert journal.first.scheduler_names == ("mine", "volcano")
    assert list(journal.batches) == []


def recorded(*paths: str) -> bytes:
    """A journal of three turns: the cluster and its jobs, ended pods, no event."""
    bundle = read_bundle([str(ROOT / path) for path in paths])
    scheduler = new_scheduler()
    file = io.BytesIO()
    writer = JournalWriter(file, scheduler.view.configuration, scheduler.view.scheduler_names)
    scheduler.journal = Journal(scheduler.view.configuration, keep=1, sink=writer)
    now = bundle.newest_timestamp
    pods = [ev.PodSeen(pod) for pod in bundle.pods]
    scheduler.handle([*cluster_events(bundle), *job_events(bundle), *pods], now)
    scheduler.handle([ev.PodGone(pod.uid) for pod in bundle.pods], now + 1)
    scheduler.handle([], now + 2)
    assert (len(scheduler.journal), scheduler.journal.recorded) == (1, 3)
    return file.getvalue()


@pytest.fixture(scope="module")
def journal() -> bytes:
    return recorded("examples/cluster.yaml", "examples/jobs")


@pytest.mark.parametrize(
    "paths",
    [
        ("examples/cluster.yaml", "examples/jobs"),
        ("examples/switches/shared-2-pair.yaml",),
        ("examples/superpods/sequence-nodes.json", "examples/superpods/sequence-jobs.yaml"),
    ],
)
def test_the_same_decisions_come_out_again(paths: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "journal"
    file.write_bytes(recorded(*paths))
    answer = replay(open_journal(file), shipped_catalog())
    assert answer.difference is None
    assert answer.batches == 3
    assert answer.commands > 0


@pytest.mark.parametrize("awaits_groups", [False, True])
def test_whether_pods_wait_for_pod_groups_is_recorded(awaits_groups: bool, tmp_path: Path) -> None:
    scheduler = new_scheduler(awaits_groups=awaits_groups)
    view = scheduler.view
    lines = [header_line(view.configuration, view.scheduler_names, awaits_groups=view.awaits_groups)]
    scheduler.journal = Journal(
        view.configuration, keep=1, sink=lambda batch: lines.append(batch_line(batch))
    )
    cluster = cluster_events(read_bundle([str(ROOT / "examples/cluster.yaml")]))
    owner = Owner("ReplicaSet", "chat", "rs", "apps/v1")
    replica = pod("chat-0", owner=owner)
    bound = [one for one in scheduler.handle(seen(*cluster, replica), 1) if isinstance(one, Bind)]
    assert bool(bound) is not awaits_groups
    file = tmp_path / "journal"
    file.write_bytes(b"".join(lines))
    answer = replay(open_journal(file), shipped_catalog())
    assert (answer.batches, answer.difference) == (1, None)
    # What the dashboard shows of it.
    shown, _, _ = end_of_journal(file, shipped_catalog())
    assert any(placement.node >= 0 for placement in shown.cluster.pods.values()) is not awaits_groups


def test_reasons_are_part_of_a_batch() -> None:
    bundle = read_bundle([str(ROOT / "examples/cluster.yaml"), str(ROOT / "examples/jobs")])
    scheduler = new_scheduler()
    scheduler.journal = Journal(scheduler.view.configuration)
    scheduler.handle([*cluster_events(bundle), *job_events(bundle)], 1)
    (batch,) = scheduler.journal
    reasons = [one.reason for one in batch.commands if isinstance(one, SetGroupStatus)]
    assert any(reason.code == "request-not-allowed" for reason in reasons if reason is not None)


def run(data: bytes, folder: Path, *arguments: str) -> tuple[int, str, str]:
    file = folder / "journal"
    file.write_bytes(data)
    ran = CliRunner().invoke(replay_command, [str(file), *arguments])
    return ran.exit_code, ran.stdout, ran.stderr.replace(str(file), "FILE")


def test_a_changed_decision_is_shown(journal: bytes, tmp_path: Path) -> None:
    code, out, _ = run(journal.replace(b'"node":"node-13","chips"', b'"node":"node-14","chips"', 1), tmp_path)
    assert code == 1
    assert out.startswith("different after 1 batch")
    assert '"node": "node-14"' in out
    assert '"node": "node-13"' in out


def test_a_cut_off_last_line_is_left_out(journal: bytes, tmp_path: Path) -> None:
    code, out, err = run(journal[:-10], tmp_path, "-o", "json")
    assert code == 0
    assert json.loads(out)["batches"] == 2
    assert err == "note: FILE: line 4 is truncated and was skipped\n"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "ringwise: FILE: line 1: is empty\n"),
        (b"hello\n", "ringwise: FILE: line 1: is not a journal: "),
        (
            b'{"format":"x","version":1,"ringwise":"","configuration":1,"scheduler_names":[]}\n',
            "ringwise: FILE: line 1: is not a journal: ",
        ),
        (b"\xff\xfe\n", "ringwise: FILE: line 1: is not a journal: "),
        (b"[" * 100_000 + b"\n", "ringwise: FILE: line 1: is not a journal: "),
    ],
)
def test_a_file_that_is_no_journal_is_rejected_in_one_line(data: bytes, error: str, tmp_path: Path) -> None:
    code, out, err = run(data, tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith(error)
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"{}\n", "line 5: Object missing required field"),
        (
            b'{"number":1,"now":1,"events":[["Surprise",{}]],"commands":[]}\n',
            "line 5: unknown event Surprise",
        ),
        (
            b'{"number":1,"now":1,"events":[["PodGone",{"uid":1}]],"commands":[]}\n',
            "line 5: Expected `str`, got `int`",
        ),
        (b"{\n", "line 5: Input data was truncated"),
    ],
)
def test_a_broken_line_in_the_middle_is_named(
    journal: bytes, line: bytes, error: str, tmp_path: Path
) -> None:
    code, _, err = run(journal + line + b"{}\n", tmp_path)
    assert code == 2
    assert err.startswith(f"ringwise: FILE: {error}")
    assert err.count("\n") == 1


def test_a_journal_of_a_plugin_that_is_not_installed_is_refused(journal: bytes, tmp_path: Path) -> None:
    code, _, err = run(journal.replace(b'"name":"drf"', b'"name":"mine"', 1), tmp_path)
    assert code == 2
    assert err.startswith(
        "ringwise: FILE: line 1: the plugin mine of its configuration is not installed; installed: "
    )
    code, _, err = run(journal.replace(b'"allocate"', b'"mine"', 1), tmp_path)
    assert code == 2
    assert err.startswith("ringwise: FILE: line 1: the action mine of its configuration is not installed; ")
    changed = ev.ConfigurationSeen(default_configuration())
    line = batch_line(Batch(3, 9, (changed,), ())).replace(b'"name":"gang"', b'"name":"mine"', 1)
    code, _, err = run(journal + line, tmp_path)
    assert code == 2
    assert err.startswith("ringwise: FILE: line 5: the plugin mine of its configuration is not installed; ")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(JournalError, match="cannot be read: no such file"):
        open_journal(Path("absent"))
