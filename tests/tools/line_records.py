"""Which tests run which lines of the sources, recorded once and again for test files that changed since.

As a pytest plugin this module records, in every worker; `tools/mutants.py` asks.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from functools import cache
from pathlib import Path

import coverage
import pytest

from tests.checkout import ROOT

#: Tests that read the sources instead of running them, and those that need more than a process.
EXCLUDED = (
    r"tests/(test_(structure|grammar|project)|bench|cluster|node|tools|tour|web/browser|.*_(wheel|package))"
)
MARKS = "not (cluster or browser or node or chaos or process or alone or full)"
BUILD = ROOT / "build" / "mutants"
#: Seconds to import and collect a test file.
COLLECTION = 0.3


def copy_tree(name: str) -> Path:
    """Copy the working tree into a folder of the build."""
    shutil.rmtree(BUILD / name, ignore_errors=True)
    ignored = shutil.ignore_patterns(".*", "build", "dist", "node_modules")
    return Path(shutil.copytree(ROOT, BUILD / name, ignore=ignored, symlinks=True))


def python_path(tree: Path) -> str:
    return os.pathsep.join(str(tree / name) for name in ("src", "bench/src", ""))


class LineRecords:
    """The newest record of each test file, with the sources as they were then."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}  # by test
        self._folders: dict[str, Path] = {}  # by test file
        self._digests: dict[str, str] = {}
        for folder in sorted(path.parent for path in BUILD.glob("record-*/digests.json")):
            digests = json.loads((folder / "digests.json").read_text())
            self._digests |= digests
            self._folders |= dict.fromkeys(digests, folder)
            older = {name: s for name, s in self.seconds.items() if _file(name) not in digests}
            self.seconds = older | json.loads((folder / "seconds.json").read_text())
        self.seconds = {name: s for name, s in self.seconds.items() if (ROOT / _file(name)).exists()}

    def updated(self) -> LineRecords:
        """Run the test files that are not recorded as they are now."""
        changed = {}
        for path in sorted((ROOT / "tests").rglob("test_*.py")):
            name, digest = path.relative_to(ROOT).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()
            if digest != self._digests.get(name) and not re.match(EXCLUDED, name):
                changed[name] = digest
        if not changed:
            return self
        print(f"== recording which lines are run by the tests of {len(changed)} files", flush=True)
        tree, folder = copy_tree("recorded"), BUILD / f"record-{time.time():.0f}"
        shutil.copytree(tree / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        environment = os.environ | {"PYTHONPATH": python_path(tree), "LINE_RECORD": str(folder)}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.tools.line_records",
            "--tb=no",
            "-m",
            MARKS,
        ]
        command += ["-p", "no:cacheprovider", "-n", "2", "--dist=worksteal", *changed]
        subprocess.run(command, cwd=tree, env=environment, check=False)
        subprocess.run([sys.executable, "-m", "coverage", "combine", "-q"], cwd=folder, check=True)
        (folder / "digests.json").write_text(json.dumps(changed))
        return LineRecords()

    def tests_of(self, path: str, line: int, statement: int, once: bool) -> list[str]:
        """Return the tests that run a line: those of the file named after its module, then the fastest."""
        names: set[str] = set()
        for folder in set(self._folders.values()):
            contexts, earlier = _contexts(folder, path), _earlier_lines(folder, path)
            covering = contexts.get(earlier.get(line, 0)) or contexts.get(earlier.get(statement, 0)) or []
            # Code that runs once is recorded for one test of many, and new code for none.
            if once or line not in earlier or covering == [""]:
                covering = [name for found in contexts.values() for name in found]
            names |= {name for name in covering if self._folders.get(_file(name)) == folder}
        tests = [name for name in self.seconds if name in names or _file(name) in names]
        if once and not tests:
            tests = [name for name in self.seconds if name.startswith(f"tests/{Path(path).parts[2]}/")]
        own = f"/test_{Path(path).stem}.py"
        return sorted(tests, key=lambda name: (not _file(name).endswith(own), self.seconds[name], name))

    def affordable(self, tests: list[str], limit: float) -> dict[str, float]:
        """Return the first tests that take no longer than a limit, by file, with what each costs."""
        chosen: dict[str, dict[str, float]] = defaultdict(dict)
        spent = 0.0
        for name in tests:
            cost = self.seconds[name] + (0 if _file(name) in chosen else COLLECTION)
            if not spent or spent + cost <= limit:
                spent += cost
                chosen[_file(name)][name] = cost
        return {name: cost for costs in chosen.values() for name, cost in costs.items()}


def _file(test: str) -> str:
    return test.split("::")[0]


@cache
def _contexts(folder: Path, path: str) -> dict[int, list[str]]:
    """Return the tests that run each line, files whose fixtures do, and an empty name for imports."""
    data = coverage.CoverageData(str(folder / ".coverage"))
    data.read()
    files = [name for name in data.measured_files() if name.endswith(f"/{path}")]
    return data.contexts_by_lineno(files[0]) if files else {}


@cache
def _earlier_lines(folder: Path, path: str) -> dict[int, int]:
    """Return which number each line of a source file had in a record; lines that changed are left out."""
    files = (folder / path, ROOT / path)
    before, now = (file.read_text(encoding="utf-8").splitlines() if file.exists() else [] for file in files)
    blocks = difflib.SequenceMatcher(None, before, now, autojunk=False).get_matching_blocks()
    return {block.b + i + 1: block.a + i + 1 for block in blocks for i in range(block.size)}


class _Recorder:
    def __init__(self, folder: Path, worker: str | None) -> None:
        self._folder, self._worker = folder, worker
        self._passed: set[str] = set()
        self._seconds: dict[str, float] = defaultdict(float)
        file, sources = str(folder / ".coverage"), ["*/src/ringwise/*"]
        self._coverage = coverage.Coverage(file, worker, include=sources, config_file=False)
        if worker is not None:
            self._coverage.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        # A fixture may serve all tests of the file, but it runs in one of them.
        self._coverage.switch_context(_file(item.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        if self._worker is not None:
            self._coverage.stop()
            self._coverage.save()
        else:
            seconds = {name: self._seconds[name] for name in self._passed}
            (self._folder / "seconds.json").write_text(json.dumps(seconds))


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", {}).get("workerid")
    config.pluginmanager.register(_Recorder(Path(os.environ["LINE_RECORD"]), worker))
