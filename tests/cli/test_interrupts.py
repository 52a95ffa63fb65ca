"""What takes long shows that it works, and ends at Ctrl-C without a traceback.

Exit code 130: the work was not done. Exit code 0: the command runs until Ctrl-C.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
import pytest

from ringwise.cli.commands import cli
from ringwise.cli.main import _run as main_run

ROOT = Path(__file__).parents[2]
FILES = f"-f {ROOT}/examples/cluster.yaml"


@pytest.mark.parametrize(
    ("words", "module", "work", "text"),
    [
        (f"capacity {FILES}", "query.queries", "ringwise.apps.sources.documents.count_capacity", "deciding"),
        (f"why x {FILES}", "query.queries", "ringwise.apps.sources.documents.explain_job", "deciding"),
        (f"doctor {FILES}", "query.queries", "ringwise.apps.sources.objects.examine", "deciding"),
        (f"get jobs {FILES}", "query.queries", "ringwise.apps.sources.objects.from_bundle", "deciding"),
        (f"place {FILES}", "query.place", "ringwise.apps.sources.files.place", "placing"),
        ("replay journal", "lab.replay", "ringwise.cli.lab.replay.open_journal", "deciding again"),
        (
            "why x --journal j --history",
            "query.explain",
            "ringwise.apps.job_history.history_of",
            "reading the journal",
        ),
        (
            "cordon node-0 --kubeconfig KUBECONFIG",
            "change.targets",
            "ringwise.apps.live_changes.run",
            "cordon",
        ),
    ],
)
def test_ctrl_c_while_it_works(
    words: str,
    module: str,
    work: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown: list[str] = []

    @contextmanager
    def spinner(what: str) -> Iterator[Callable[[str], None]]:
        shown.append(what)
        yield shown.append
        shown.remove(what)

    def interrupted(*_arguments: object, **_options: object) -> NoReturn:
        assert shown == [text]
        raise KeyboardInterrupt

    config = tmp_path / "config"
    config.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], "
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {}}]}"
    )
    monkeypatch.setattr(f"ringwise.cli.{module}.spinner", spinner)
    monkeypatch.setattr(work, interrupted)
    monkeypatch.setattr(sys, "argv", ["ringwise", *shlex.split(words.replace("KUBECONFIG", str(config)))])
    assert main_run(lambda: cli, "ringwise") == 130
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert printed.out == ""


AFFECTED = {
    "target": "node node-0",
    "pods": 1,
    "jobs": [
        {
            "namespace": "lab",
            "name": "a",
            "kind": "vcjob",
            "here": 1,
            "staying": 0,
            "min_available": 1,
            "below_min_available": True,
            "not_restarted": 0,
            "stays": "",
        }
    ],
}
NO_JOBS = {"schema": "ringwise.io/jobs/v1", "now": 0, "jobs": []}


@pytest.mark.parametrize(
    ("words", "where", "answer", "code", "told"),
    [
        # Their work is not done.
        ("get jobs", "ringwise.apps.lab.client.LabClient.ask", None, 130, ""),
        ("top --once", "ringwise.apps.sources.lab.LabSource.top", None, 130, ""),
        (
            "drain node-0",
            "ringwise.cli.change.draining.click.confirm",
            AFFECTED,
            130,
            "nothing was changed\n",
        ),
        (
            "drain node-0 --yes",
            "ringwise.cli.change.draining._drain_jobs",
            AFFECTED,
            130,
            "ringwise: interrupted: node node-0 stays cordoned, and pods that were evicted are not "
            "brought back\nto continue: ringwise drain node-0\nto cancel: ringwise uncordon NODE\n",
        ),
        # Ctrl-C is how they end.
        ("top", "time.sleep", {}, 0, ""),
        ("top", "ringwise.cli.printers.top.draw_top", {}, 0, ""),
        ("get jobs --watch", "ringwise.cli.query.lists._wait", NO_JOBS, 0, ""),
        (f"web {FILES}", "ringwise.cli.query.web.asyncio.run", None, 0, ""),
    ],
)
def test_exit_code_of_ctrl_c(
    words: str,
    where: str,
    answer: dict[str, Any] | None,
    code: int,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*arguments: Any, **_options: object) -> NoReturn:
        if where.endswith("asyncio.run"):
            arguments[0].close()
        if where.endswith("confirm"):
            # As click turns it round.
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                raise click.Abort from None
        raise KeyboardInterrupt

    monkeypatch.setenv("RINGWISE_LAB", str(tmp_path))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("ringwise.apps.lab.client.LabClient.ask", lambda *_, **__: answer)
    monkeypatch.setattr("ringwise.apps.sources.lab.LabSource.top", lambda _: answer)
    monkeypatch.setattr("ringwise.cli.printers.top.draw_top", lambda *_: None)
    monkeypatch.setattr(where, interrupted)
    monkeypatch.setattr(sys, "argv", ["ringwise", *shlex.split(words)])
    assert main_run(lambda: cli, "ringwise") == code
    said = capsys.readouterr().err
    assert said.endswith(told)
    assert "Traceback" not in said
