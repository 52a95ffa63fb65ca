"""What takes long shows that it works, and ends at Ctrl-C with exit code 130 and without a traceback."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from ringwise.cli.commands import cli
from ringwise.cli.main import _run as main_run

ROOT = Path(__file__).parents[2]
FILES = f"-f {ROOT}/examples/cluster.yaml"


@pytest.mark.parametrize(
    ("words", "module", "work", "text"),
    [
        (f"capacity {FILES}", "queries", "ringwise.apps.sources.answers.count_capacity", "deciding"),
        (f"why x {FILES}", "queries", "ringwise.apps.sources.answers.explain_job", "deciding"),
        (f"doctor {FILES}", "queries", "ringwise.apps.sources.objects.examine", "deciding"),
        (f"get jobs {FILES}", "queries", "ringwise.apps.sources.objects.from_bundle", "deciding"),
        (f"place {FILES}", "place", "ringwise.apps.sources.files.place", "placing"),
        ("replay journal", "replay", "ringwise.cli.replay.open_journal", "deciding again"),
        ("why x --journal j --story", "explain", "ringwise.apps.story.story_of", "reading the journal"),
        (
            "cordon node-0 --kubeconfig KUBECONFIG",
            "changes",
            "ringwise.apps.chips.cordon",
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
