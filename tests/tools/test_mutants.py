"""`make mutants` finds the places for small bugs, and says which of them the tests notice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tools import mutants

SOURCE = """
import log

LIMIT: "dict[int, 3]" = 8


class Queue:
    def admit(self, job, pods):
        if job.size <= self.free and not job.held:
            self.free -= job.size
            self.note(job, pods)
            log.info("admitted", 5)
        return [pod for pod in pods if pod.ready], all(pods), f"{1 + 1}"


def other(key):
    for name in key:
        if name in (1, 2):
            continue
"""
CHANGES = {
    ("", "constant", "8", "9"),
    ("Queue.admit", "boundary", "<=", "<"),
    ("Queue.admit", "dropped condition", "job.size <= self.free and not job.held", "(not job.held)"),
    ("Queue.admit", "dropped condition", "job.size <= self.free and not job.held", "(job.size <= self.free)"),
    (
        "Queue.admit",
        "negated",
        "job.size <= self.free and not job.held",
        "(not (job.size <= self.free and not job.held))",
    ),
    ("Queue.admit", "negated", "not job.held", "(job.held)"),
    ("Queue.admit", "removed", "self.free -= job.size", "pass"),
    ("Queue.admit", "removed", "self.note(job, pods)", "pass"),
    ("Queue.admit", "swapped", "job, pods", "pods, job"),
    ("Queue.admit", "swapped", '"admitted", 5', '5, "admitted"'),
    ("Queue.admit", "constant", "5", "6"),
    ("Queue.admit", "negated", "pod.ready", "(not (pod.ready))"),
    ("Queue.admit", "function", "all", "any"),
    ("other", "negated", "in", "not in"),
    ("other", "constant", "1", "2"),
    ("other", "constant", "2", "3"),
    ("other", "removed", "continue", "pass"),
}

TWO_FUNCTIONS = (
    "def fits(size, free):\n    return size <= free\n\n\ndef late(now, end):\n    return now > end\n"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small project that is tested as this one is."""
    for name in ("tools/mutants.py", "tests/checkout.py", "tests/tools/line_records.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    marks = ["cluster", "browser", "node", "chaos", "process", "alone", "full"]
    options = f'pythonpath = ["."]\naddopts = ["--import-mode=importlib"]\nmarkers = {marks}\n'
    (tmp_path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{options}")
    return tmp_path


def write_source(checkout: Path, text: str) -> str:
    path = checkout / "src" / "ringwise" / "state" / "queue.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parents[1] / "__init__.py").touch()
    path.write_text(text)
    return path.relative_to(checkout).as_posix()


def test_every_kind_of_change_is_found(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "ROOT", checkout)
    mutants.source_text.cache_clear()
    path = write_source(checkout, SOURCE)
    found = mutants.find_mutants([path], seed=1)
    assert {(m.scope, m.kind, m.text[slice(*m.span)].decode(), m.new) for m in found} == CHANGES
    for mutant in found:
        compile(mutant.mutated(), path, "exec")
        assert mutant.diff().count("\n+") == 2
    names = [mutant.identity for mutant in found]
    assert len({*names}) == len(names)

    write_source(checkout, SOURCE.replace("LIMIT", "# Another line.\nLIMIT"))
    mutants.source_text.cache_clear()
    assert [mutant.identity for mutant in mutants.find_mutants([path], seed=1)] == names
    assert [mutant.identity for mutant in mutants.find_mutants([path], seed=2)] != names


@pytest.mark.full
def test_mutants_that_no_test_notices_are_listed(checkout: Path) -> None:
    write_source(checkout, TWO_FUNCTIONS)
    (checkout / "tests" / "test_queue.py").write_text(
        "from ringwise.state.queue import fits\n\n\n"
        "def test_fits():\n    assert fits(1, 2) and not fits(2, 1)\n\n\n"
        "def test_all_of_it():\n    assert fits(2, 2)\n"
    )

    def run(*arguments: str) -> list[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHONPATH"))}
        command = [sys.executable, "-m", "tools.mutants", "src/ringwise/state", *arguments]
        done = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    first = run()
    assert first[-1].split() == ["state", "1", "1", "50%"]
    assert sum(" not run by any test: src/ringwise/state/queue.py:6 late" in line for line in first) == 2
    assert {"-    return now > end", "+    return now >= end"} <= {*first}

    (checkout / "tests" / "test_queue.py").write_text(
        "from ringwise.state.queue import fits, late\n\n\n"
        "def test_fits():\n    assert fits(1, 2) and not fits(2, 1) and late(2, 1)\n"
    )
    again = run("--only", "build/mutants/survivors.diff", "--workers", "1")
    assert again[-1].split() == ["state", "0", "1", "0%"]
    assert any(" survived: src/ringwise/state/queue.py:6 late boundary" in line for line in again)
