"""Filters, order and limit of `ringwise get`, for files, a lab and a cluster."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest
from click.testing import CliRunner, Result

from ringwise.apps.following import FollowedKind
from ringwise.apps.lab.client import LabClient, RefusedByLabError
from ringwise.apps.sources.documents import FINDERS
from ringwise.apps.sources.lab import LabSource
from ringwise.cli.commands import cli, plugin
from ringwise.cli.main import _run as main_run
from ringwise.cli.printers.kinds import DRAWINGS
from ringwise.kubeclient.client import Client
from ringwise.state.model import Requirement
from ringwise.views.kinds import BY_NAME, BY_PLURAL
from ringwise.views.lists import (
    EVERYTHING,
    Choice,
    ListError,
    Listing,
    read_selector,
    state_words,
)
from tests.device.test_commands import kubeconfig
from tests.examples import sample
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import GROUPS, NODES, PODS, QUEUES, group, node, pod
from tests.lab.rig import Terminal, job, nodes, running

KINDS = {
    NODES: ("v1", "Node"),
    QUEUES: ("scheduling.volcano.sh/v1beta1", "Queue"),
    GROUPS: ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    PODS: ("v1", "Pod"),
}


def labeled(thing: dict[str, Any], **labels: str) -> dict[str, Any]:
    meta = thing["metadata"]
    return {**thing, "metadata": {**meta, "labels": {**meta.get("labels", {}), **labels}}}


def objects() -> dict[str, list[dict[str, Any]]]:
    """Twelve nodes in two zones, a pod that runs, a gang that does not fit, one that is refused."""
    chips = ",".join(f"Ascend910-{chip}" for chip in range(4))
    gang = [labeled(pod(f"gang-{number}", 8, group="gang"), team="a") for number in range(13)]
    cordoned = node("node-3")
    cordoned["spec"] = {**cordoned.get("spec", {}), "unschedulable": True}
    bad = group("bad", 1)
    bad["spec"]["queue"] = "team"
    others = [node(f"node-{number}") for number in range(13) if number not in (3, 10)]
    return {
        NODES: [labeled(cordoned, zone="east"), *(labeled(one, zone="west") for one in others)],
        QUEUES: [{"metadata": {"name": "default"}}, {"metadata": {"name": "team"}}],
        GROUPS: [labeled(group("gang", 13), team="a"), bad],
        PODS: [
            labeled(pod("runs", 4, on="node-2", held=chips), team="b"),
            *gang,
            pod("bad-0", 3, group="bad"),
        ],
    }


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    file = tmp_path / "objects.json"
    lines = [
        json.dumps({"apiVersion": KINDS[path][0], "kind": KINDS[path][1], **one})
        for path, found in objects().items()
        for one in found
    ]
    file.write_text("\n".join(lines))
    return file


def names(document: dict[str, Any]) -> list[str]:
    kind = next(kind for kind in BY_PLURAL if kind in document)
    return [row.get("name") or f"{row['node']} {row['chip']}" for row in document[kind]]


LISTS = {
    "jobs --state pending": ["gang"],
    "job runs default/gang runs": ["runs", "gang"],
    "po gang-3": ["gang-3"],
    "no node-3 node-1": ["node-3", "node-1"],
    "chips node-2/Ascend910-3": ["node-2 Ascend910-3"],
    "jobs --state rejected --state scheduled --sort-by name": ["bad", "runs"],
    "jobs --queue team": ["bad"],
    "jobs -l team=a": ["gang"],
    "jobs -l 'team notin (a, c),team'": ["runs"],
    "jobs -l team!=a --sort-by -chips": ["runs", "bad"],
    "pods --queue team": ["bad-0"],
    "pods --state running": ["runs"],
    "nodes --state cordoned": ["node-3"],
    "nodes -l zone=east,kubernetes.io/os!=windows": ["node-3"],
    "nodes -l '!zone'": [],
    "queues --sort-by -pending": ["default", "team"],
    "chips --state used": [f"node-2 Ascend910-{chip}" for chip in range(4)],
    "chips -l zone=east --state used": [],
    "chips --node node-2 -l zone=west --state used --sort-by -chip": [
        f"node-2 Ascend910-{chip}" for chip in (3, 2, 1, 0)
    ],
}


async def test_files_lab_and_cluster_list_the_same(tmp_path: Path, manifests: Path) -> None:
    lab = tmp_path / "lab"

    def compare(config: str) -> None:
        with running(lab, nodes(0)):
            Terminal(lab).ok(f"submit {manifests}")
            for question, expected in LISTS.items():
                for source in (f"-f {manifests}", f"--lab {lab}", f"--kubeconfig {config}"):
                    ran = CliRunner().invoke(plugin, shlex.split(f"get {question} {source} -o json"))
                    assert ran.exit_code == 0, (question, source, ran.output)
                    assert names(json.loads(ran.stdout)) == expected, (question, source)

    async with FakeApiServer() as api:
        for path, found in objects().items():
            for one in found:
                api.put(path, one)
        await asyncio.to_thread(compare, kubeconfig(tmp_path, api.url))


def get(words: str, manifests: Path) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(cli, shlex.split(f"get {words} -f {manifests}"))


def test_a_lab_sends_the_rows_that_are_shown(tmp_path: Path, manifests: Path) -> None:
    with running(tmp_path / "lab", nodes(0)):
        Terminal(tmp_path / "lab").ok(f"submit {manifests}")
        source = LabSource(LabClient(tmp_path / "lab"))
        cut = source.get("pods", Listing(limit=2, sort_by="-name"))
        assert ([row["name"] for row in cut["pods"]], cut["remaining_item_count"]) == (
            ["runs", "gang-12"],
            13,
        )
        assert "more" not in source.get("pods")
        with pytest.raises(RefusedByLabError, match="pods cannot be sorted by"):
            source.get("pods", Listing(sort_by="color"))


def test_a_table_ends_with_how_many_more_there_are(monkeypatch: pytest.MonkeyPatch, manifests: Path) -> None:
    cut = get("pods --limit 3", manifests).stdout.splitlines()
    assert (len(cut), cut[-1]) == (6, "and 12 more; --limit 0 shows all")
    # In a pipe a list is whole, in a terminal it has a limit.
    assert "more;" not in get("pods", manifests).stdout
    assert "more;" not in get("pods --limit 0", manifests).stdout
    monkeypatch.setattr("ringwise.cli.query.lists.ROWS", 5)
    monkeypatch.setattr("ringwise.cli.query.lists._in_terminal", lambda: True)
    assert get("pods", manifests).stdout.splitlines()[-1] == "and 10 more; --limit 0 shows all"
    assert "more;" not in get("pods --limit 0", manifests).stdout
    assert len(json.loads(get("pods -o json", manifests).stdout)["pods"]) == 15


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "jobs --state runing",
            'jobs: unknown state "runing"; must be one of scheduled, ',
        ),
        (
            "nodes --state redy",
            'nodes: unknown state "redy"; must be one of not-ready, ',
        ),
        (
            "queues --sort-by age",
            "queues cannot be sorted by age; by: name, state, weight, jobs, pending (prefix with - for ",
        ),
        ("jobs -l 'a in b'", 'invalid selector "a in b" at "a in b": expected key=value, '),
        ("jobs -l a=b,", 'invalid selector "a=b," after its last comma: expected key=value, '),
        (
            "queues -l a=b",
            "-l requires jobs, nodes, pods, chips",
        ),
        ("nodes --queue team", "--queue requires jobs and pods; it cannot be combined with nodes"),
        ("jobs --queue tam", 'queue "tam" not found; did you mean "team"?'),
        ("no node-77", 'node "node-77" not found; did you mean "node-7"?'),
        ("jobs --limit 3 -o json", "--limit requires -o table; it cannot be combined with -o json"),
        ("nodes --node node-1", "--node requires chips or pods; it cannot be combined with nodes"),
    ],
)
def test_what_cannot_be_listed_gets_one_line_with_what_can(words: str, message: str, manifests: Path) -> None:
    ran = get(words, manifests)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"ringwise: {message}")
    assert len(ran.stderr.splitlines()) == 1


def test_names_and_more_columns(manifests: Path) -> None:
    assert get("q -o name", manifests).stdout == "default\nteam\n"
    assert get("jobs runs -o name", manifests).stdout == "default/runs\n"
    for kind, heading in (("no", "rack"), ("jobs", "priority"), ("q", "reclaimable")):
        narrow, wide = (get(f"{kind}{more}", manifests).stdout for more in ("", " -o wide"))
        assert (heading in narrow, heading in wide) == (False, True), kind
    # Columns without a value are left out, and some kinds have no more columns.
    assert "exit code" not in get("po -o wide", manifests).stdout
    assert get("chips -o wide", manifests).stdout == get("chips", manifests).stdout


def test_a_list_without_rows_says_whether_others_were_left_out(manifests: Path) -> None:
    assert get("jobs -l team=c", manifests).stdout == "there are no such jobs\n"
    assert get("jobs -n nowhere", manifests).stdout == "there are no jobs in namespace nowhere\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("a", (Requirement("a", "Exists"),)),
        ("!a", (Requirement("a", "DoesNotExist"),)),
        ("a=", (Requirement("a", "In", ("",)),)),
        ("a=1, b==2", (Requirement("a", "In", ("1",)), Requirement("b", "In", ("2",)))),
        ("x.io/a-b!=v_1", (Requirement("x.io/a-b", "NotIn", ("v_1",)),)),
        (" a in (b, c),d notin (e)", (Requirement("a", "In", ("b", "c")), Requirement("d", "NotIn", ("e",)))),
        # A key may be called as an operator.
        ("in,notin=x", (Requirement("in", "Exists"), Requirement("notin", "In", ("x",)))),
    ],
)
def test_selectors_are_read_as_kubectl_reads_them(text: str, expected: tuple[Requirement, ...]) -> None:
    assert read_selector(text) == expected


@pytest.mark.parametrize(
    "text", [",", "a b", "a=b c", "a in ()x", "a in (b", "a in (b c)", "=b", "!", "a=b,,c"]
)
def test_selectors_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ListError, match="expected key=value"):
        read_selector(text)


def test_every_state_and_key_can_be_asked_for(manifests: Path) -> None:
    """In words of `--state` and `--sort-by`, and in kubectl's."""
    for kind, shown in BY_PLURAL.items():
        whole = sorted(names(json.loads(get(f"{kind} -o json", manifests).stdout)))
        for state in state_words(shown):
            Choice(kind, Listing(states=(state.upper(),)))
        for key in sample([*shown.keys], 3):
            for typed in (key, f"-{key}"):
                ran = get(f"{kind} --sort-by {typed} -o json", manifests)
                assert sorted(names(json.loads(ran.stdout))) == whole, (kind, typed)
    oldest = get("pods --sort-by .metadata.creationTimestamp -o json", manifests)
    braces = get("pods --sort-by '{.metadata.name}' -o json", manifests)
    created = [row["created"] for row in json.loads(oldest.stdout)["pods"]]
    assert created == sorted(created)
    assert names(json.loads(braces.stdout))[:3] == ["bad-0", "gang-0", "gang-1"]


def test_every_kind_of_the_table_is_found_drawn_and_documented() -> None:
    assert set(BY_NAME) == set(FINDERS) == set(DRAWINGS)
    for name, kind in BY_NAME.items():
        described = (FINDERS[name].described is not None, DRAWINGS[name].describe is not None)
        assert described == (kind.is_described, kind.is_described), name
        fields = get_type_hints(kind.list_type)
        assert {kind.plural, "schema"} <= set(fields), name
        assert ("now" in fields) == FINDERS[name].has_now, name


def test_rows_without_a_value_come_last() -> None:
    rows: list[dict[str, int | None]]
    rows = [{"rank": None, "n": 1}, {"rank": 2, "n": 2}, {"rank": None, "n": 3}, {"rank": 1, "n": 4}]
    for key, expected in (("rank", [4, 2, 1, 3]), ("-rank", [2, 4, 1, 3])):
        found, _ = Choice("pods", Listing(sort_by=key)).of(rows)
        assert [row["n"] for row in found] == expected
    assert Choice("pods", EVERYTHING).of(rows) == (rows, 0)


def test_a_lab_of_another_version_is_not_asked_for_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would list everything."""
    terminal = Terminal(tmp_path)
    monkeypatch.setattr("ringwise.apps.lab.api.__version__", "0.0.1")
    with running(tmp_path, nodes(1)):
        assert "node-0" in terminal.ok("get nodes --limit 1")
        for words in (
            "nodes --state cordoned",
            "jobs --queue default",
            "chips --sort-by -chip",
            "jobs --affected",
        ):
            assert terminal.refused(f"get {words}") == (
                "ringwise: the lab is of another version of Ringwise: stop it and start it again; until "
                "then, lists cannot be filtered or sorted\n"
            )


# -- watch


@contextmanager
def pauses(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> Iterator[list[float]]:
    """What happens between two looks of `--watch`; after the last step Ctrl-C is pressed."""
    slept: list[float] = []
    left = iter(steps)

    def wait(seconds: float) -> None:
        slept.append(seconds)
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr("ringwise.cli.query.lists._wait", wait)
    yield slept


def run_main(monkeypatch: pytest.MonkeyPatch, root: click.Group, words: str) -> int:
    """The program as it is started, with its exit code."""
    monkeypatch.setattr(sys, "argv", ["ringwise", *shlex.split(words)])
    monkeypatch.setenv("COLUMNS", "80")
    return main_run(lambda: root, "ringwise")


def test_watch_prints_rows_that_change_until_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        terminal.submit(job("one", 1, 8))
        with pauses(
            monkeypatch,
            lambda: None,
            lambda: terminal.submit(job("two", 1, 4)),
            lambda: terminal.ok("delete job two"),
        ) as slept:
            code = run_main(monkeypatch, cli, f"get jobs --watch --lab {tmp_path}")
    printed, told = capsys.readouterr()
    lines = printed.splitlines()
    assert (code, told.strip(), slept) == (0, "", [1.0] * 4)
    assert lines[0].startswith("job       queue     phase      ")
    assert lines[2].startswith("lab/one   default   Starting   1/1    8 ")
    # A row that did not change is not printed again. A pending job has a column more, below new headings.
    assert (lines[0].split()[-1], lines[3].split()[-2:]) == ("age", ["starts", "in"])
    assert lines[5].startswith("lab/two   default   Pending    0/1    4 ")
    assert [line.split()[0] for line in lines if line.startswith("lab/")] == ["lab/one", "lab/two"]
    assert lines[-1] == "job lab/two is no longer in the list"


def test_no_headers_prints_the_rows_of_the_table_alone(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        terminal.submit(job("one", 1, 8), job("two", 1, 8))
        for words in ("get jobs", "get nodes", "get jobs -o wide", "get chips"):
            whole = terminal.ok(words).splitlines()
            rows = terminal.ok(f"{words} --no-headers").splitlines()
            assert set(rows[0].split()) <= {word for line in whole for word in line.split()}
            assert not any(set(line) == {"─"} or line.startswith(("job ", "node ")) for line in rows)
        both = terminal.ok("get jobs,nodes --no-headers").splitlines()
        assert [line.split()[0] for line in both if line and line[0] != " "] == [
            "lab/one",
            "lab/two",
            "node-0",
        ]


def test_watch_prints_the_headings_again_if_a_column_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of jobs that a fault affects, the table has one column more."""
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        terminal.submit(job("one", 1, 8), job("two", 1, 8))
        with pauses(
            monkeypatch,
            lambda: terminal.ok("delete job two"),
            lambda: terminal.ok("fault inject chip node-0 3"),
            lambda: terminal.submit(job("late", 1, 8)),
        ):
            run_main(monkeypatch, cli, f"get jobs --watch --lab {tmp_path}")
    lines = capsys.readouterr().out.splitlines()
    headings = [number for number, line in enumerate(lines) if line.startswith("job  ")]
    assert ["affected by" in lines[number] for number in headings] == [False, True, True]
    assert ["starts in" in lines[number] for number in headings] == [True, False, True]
    assert lines[headings[1] + 2].startswith("lab/one")
    assert lines[headings[2] + 2].startswith("lab/late")


def test_watch_prints_no_row_again_because_time_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        terminal.submit(job("one", 1, 8, minutes=30))
        terminal.submit(job("two", 1, 8))
        terminal.ok("advance 1m")
        steps = [lambda: terminal.ok("advance 10s")] * 3
        with pauses(monkeypatch, *steps):
            run_main(monkeypatch, cli, f"get jobs --watch --lab {tmp_path}")
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("lab/")]
    assert rows == ["lab/one", "lab/two"]


def test_watch_names_a_reservation_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has a name alone: it is of a queue or of a namespace."""
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        terminal.ok("reserve node-0 --for queue=default --from 2h --to 3h --name night --yes")
        with pauses(monkeypatch, lambda: terminal.ok("unreserve night")):
            assert run_main(monkeypatch, cli, f"get reservations --watch --lab {tmp_path}") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "reservation night is no longer in the list"


def test_watch_of_a_list_that_was_empty_begins_with_its_headings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)), pauses(monkeypatch, lambda: terminal.submit(job("first", 1, 3))):
        code = run_main(monkeypatch, cli, f"get jobs -w --state rejected --lab {tmp_path}")
    lines = capsys.readouterr().out.splitlines()
    assert (code, lines[0]) == (0, "there are no such jobs")
    assert lines[1].split()[:2] == ["job", "queue"]
    assert lines[3].startswith("lab/first")


async def test_watch_lists_a_cluster_once_and_then_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = threading.Semaphore(0)
    take = FollowedKind._take

    async def hear(kind: FollowedKind, lines: list[bytes]) -> None:
        await take(kind, lines)
        for line in lines:
            if b'"BOOKMARK"' not in line:
                heard.release()

    listed, pages = list[str](), Client.pages

    def listing(client: Client, path: str, *arguments: Any) -> Any:
        listed.append(path)
        return pages(client, path, *arguments)

    monkeypatch.setattr(FollowedKind, "_take", hear)
    monkeypatch.setattr(Client, "pages", listing)
    monkeypatch.setenv("COLUMNS", "80")
    async with FakeApiServer() as api:
        for number in range(3):
            api.put(NODES, node(f"node-{number}"))
        config = kubeconfig(tmp_path, api.url)
        loop = asyncio.get_running_loop()
        cordoned = node("node-1")
        cordoned["spec"] = {"unschedulable": True}

        def do(change: Callable[..., object], *arguments: object) -> None:
            loop.call_soon_threadsafe(change, *arguments)
            assert heard.acquire(timeout=60)

        def watch() -> int:
            words = f"get nodes --watch --limit 1 --kubeconfig {config}"
            with pauses(
                monkeypatch,
                lambda: do(api.put, NODES, cordoned),
                lambda: None,
                lambda: do(api.remove, NODES, "node-2"),
            ) as slept:
                monkeypatch.setattr(sys, "argv", ["ringwise", *words.split()])
                cli.main(standalone_mode=False)
            return len(slept)

        assert await asyncio.to_thread(watch) == 4
        # For the first table, and for the watch; at every look there would be four more.
        assert listed.count(NODES) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("node-0")
    assert lines[3] == "and 2 more; --limit 0 shows all"
    assert lines[4].split()[:2] == ["node-1", "cordoned"]
    assert lines[5:] == ["node node-2 is no longer in the list"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("jobs --watch -o json", "ringwise: --watch requires -o table; it cannot be combined with -o json\n"),
        ("jobs --watch", "ringwise: --watch requires a lab or a cluster; it cannot be combined with -f\n"),
    ],
)
def test_what_cannot_be_watched(words: str, message: str, manifests: Path) -> None:
    ran = get(words, manifests)
    assert (ran.exit_code, ran.stdout, ran.stderr) == (2, "", message)
