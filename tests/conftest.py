"""Settings that hold for every test.

The profiles `quick` and `full` draw the same examples on every run, so that a change passes or fails for its
own sake. `HYPOTHESIS_PROFILE=search` looks for new examples.
"""

from __future__ import annotations

import gc
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from ringwise import log
from ringwise.cli import output as printing
from tests import invariants
from tests.checkout import nodes_in, tree_of
from tests.event_loop import run
from tests.examples import PROFILE, examples

# A golden file that differs is shown with its lines.
pytest.register_assert_rewrite("tests.golden_files")

# A shared machine may be slow at any moment: time never decides a test.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

for name in ("quick", "full", "search"):
    settings.register_profile(name, _PATIENT, derandomize=name != "search", max_examples=examples(50))
settings.load_profile(PROFILE)

# Modules and collected tests stay to the end: looking through them for garbage again and again took a sixth
# of the processor time of all tests.
gc.disable()
_GC_THRESHOLD = 20_000

#: Folders of tests that all have a mark.
STORIES = {
    Path(__file__).parent / "cluster": "cluster",
    Path(__file__).parent / "node": "cluster",
    Path(__file__).parent / "web" / "browser": "browser",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests with the mark `full` in the quick profile, except in files that are named."""
    if PROFILE != "quick":
        return
    named = {(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args}
    omitted = [item for item in items if item.get_closest_marker("full") and item.path not in named]
    if omitted:
        config.hook.pytest_deselected(items=omitted)
        chosen = {*items} - {*omitted}
        items[:] = [item for item in items if item in chosen]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _modules_and_collected_tests_stay_frozen() -> Iterator[None]:
    """A component that leads again and every benchmark collect garbage among all that is frozen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        yield


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import stories that the marks of the command line leave out."""
    return True if f"not {STORIES.get(collection_path)}" in config.option.markexpr else None


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send one report of a test that passes, not three: they cost as much as most tests do."""
    if not hasattr(item.config, "workerinput") or item.config.option.durations is not None:
        return None
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    passed = all(report.passed for report in reports)
    for report in reports:
        if report.when == "call" or not passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


# What is printed is as wide as the test says, not as the terminal that runs it.
os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="session", autouse=True)
def _printed_documents_keep_to_their_schema() -> Iterator[None]:
    """Every document that any test prints with `-o json` or `-o yaml` is checked."""
    make_text = printing.document_text

    def checked(document: Any, output: str) -> str:
        from tests.tools.schemas import check_document

        check_document(document if isinstance(document, dict) else msgspec.to_builtins(document))
        return make_text(document, output)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(printing, "document_text", checked)
        yield


@pytest.fixture(scope="session", autouse=True)
def _every_turn_keeps_the_invariants() -> Iterator[None]:
    with invariants.watching():
        yield


# Hooks, because fixtures that every test has cost a sixth of what pytest needs for a small test.


def pytest_runtest_setup() -> None:
    invariants.violations.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Leave nothing of one test to the next.

    A component that it started says where its log goes. Parsed sources are kept for the tests of one folder:
    all of them together are larger than everything else, and every copy of the process would have them.
    """
    try:
        return (yield)
    finally:
        log.configure(level=log.WARNING)
        if nextitem is None or nextitem.path.parent != item.path.parent:
            tree_of.cache_clear()
            nodes_in.cache_clear()
        # A component may survive the exception of a turn, so the test itself did not fail.
        assert invariants.violations == []
