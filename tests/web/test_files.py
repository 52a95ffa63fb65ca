"""The dashboard of manifests, of the answer of `place`, and of a journal, as its commands serve it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.cli.query.web import _of_files as dashboard_of_files
from tests.timeouts import TEST_TIMEOUT

EXAMPLES = Path(__file__).parents[2] / "examples"
INPUT = ("-f", str(EXAMPLES / "cluster.yaml"), "-f", str(EXAMPLES / "jobs"))


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """The address that the command prints; it is ended as a person ends it."""
    command = [sys.executable, "-m", "ringwise", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    with process:
        printed = ""
        for line in process.stdout:
            printed += line
            if match := re.search(r"dashboard on (http://\S+/)", line):
                try:
                    yield match[1]
                finally:
                    process.send_signal(signal.SIGINT)
                break
        printed += process.stdout.read()
    assert "dashboard on" in printed, printed
    assert "Traceback" not in printed


def document(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=TEST_TIMEOUT) as answer:
        return json.loads(answer.read())


def phases(url: str) -> dict[str, str]:
    return {job["name"]: job["state"] for job in document(f"{url}api/v1/snapshot")["jobs"]}


def test_manifests_are_shown_with_what_becomes_of_them() -> None:
    with served("web", *INPUT, "--web-address", "127.0.0.1:0") as url:
        shown = document(f"{url}api/v1/snapshot")
        assert (shown["source"]["kind"], shown["source"]["live"]) == ("file", False)
        assert len(shown["nodes"]) == 16
        found = {job["name"]: (job["state"], job["reason_message"]) for job in shown["jobs"]}
        assert found["gang"] == ("pending", "would be placed on node-13, node-14, node-15 now")
        assert (found["large-gang"][0], found["three-chips"][0]) == ("pending", "rejected")
        assert document(f"{url}api/v1/jobs/default/large-gang/why")["fixes"]


def test_the_command_says_that_the_page_shows_the_moment_after_a_decision(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dashboard_of_files(INPUT[1::2], None, ())
    assert "chips that pending jobs would get now as used" in capsys.readouterr().err


@pytest.mark.full
def test_place_shows_its_answer_and_its_journal_shows_the_same(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    with served("place", *INPUT, "--dashboard", "--journal", str(journal)) as url:
        answer = phases(url)
    with served("web", "--journal", str(journal), "--web-address", "127.0.0.1:0") as url:
        assert document(f"{url}api/v1/snapshot")["source"]["kind"] == "journal"
        assert phases(url) == answer


def test_a_file_that_is_not_there_is_named_and_no_option_that_the_command_lacks() -> None:
    ended = CliRunner().invoke(cli, ["web", "-f", "missing.yaml"])
    assert ended.exit_code == 2
    assert ended.stderr == "missing.yaml: cannot be read: no such file or directory\n"
