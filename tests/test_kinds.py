"""One table of watched kinds, one of shown kinds; a new kind needs no more than its recipe says."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ringwise.manifests.kinds import KIND_OF, KINDS, events_of
from ringwise.views.kinds import KINDS as SHOWN_KINDS
from tests.checkout import PACKAGE, SOURCES, nodes_in, tree_of

TABLE = PACKAGE / "manifests" / "kinds.py"

#: Names that stand for a kind in the sources: the type of its values and its events.
_NAMES = {
    name: kind.name
    for kind in KINDS
    for name in (kind.name, *(event.__name__ for event in events_of([kind])))
}


def _lists(path: Path) -> list[str]:
    """Functions, structs and statements of a module that name more than half of the kinds."""
    text = path.read_text(encoding="utf-8")
    if len({kind for name, kind in _NAMES.items() if name in text}) <= len(KIND_OF) / 2:
        # Not even the whole file names so many.
        return []
    tree = tree_of(text)
    parts: list[tuple[int, ast.AST]] = []
    for node in nodes_in(text):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts.append((node.lineno, node))
        elif isinstance(node, ast.ClassDef):
            fields = [one for one in node.body if isinstance(one, (ast.AnnAssign, ast.Assign))]
            parts.append((node.lineno, ast.Module(body=list(fields), type_ignores=[])))
    parts += [(node.lineno, node) for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    found = []
    for line, part in parts:
        named = {
            _NAMES.get(node.id if isinstance(node, ast.Name) else node.attr)
            for node in ast.walk(part)
            if isinstance(node, (ast.Name, ast.Attribute))
        }
        if len(named - {None}) > len(KIND_OF) / 2:
            found.append(f"{path.relative_to(PACKAGE)}:{line}")
    return found


def test_there_is_one_list_of_kinds() -> None:
    lists = [found for path in SOURCES for found in _lists(path)]
    assert [one.partition(":")[0] for one in lists] == [str(TABLE.relative_to(PACKAGE))]


def _lists_shown_kinds(path: Path) -> bool:
    """Whether a statement of the module names HyperNodes and more than half of the kinds, as commands do."""
    text = path.read_text(encoding="utf-8")
    parts = tree_of(text).body if "hypernode" in text.lower() else []
    for part in parts:
        words = {node.value for node in ast.walk(part) if isinstance(node, ast.Constant)}
        named = {one.name for one in SHOWN_KINDS if words & {one.name, one.plural}}
        if "hypernode" in named and len(named) > len(SHOWN_KINDS) / 2:
            return True
    return False


def test_two_tables_beside_views_kinds_list_the_kinds_that_are_shown() -> None:
    """How they are found and described, and how they are drawn."""
    found = {str(path.relative_to(PACKAGE)) for path in SOURCES if _lists_shown_kinds(path)}
    assert found == {"apps/sources/documents.py", "cli/printers/kinds.py"}


# -- the recipe of CONTRIBUTING, followed for a kind that does not exist ---------------------------

COMPONENT = PACKAGE / "scheduler" / "core" / "drain_events.py"
READER = PACKAGE / "manifests" / "maintenance_windows.py"

_VALUE = """
from collections.abc import Iterator
from ringwise.messages.events import Event
from ringwise.records import dataclass


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class WindowSeen(Event):
    kind = "MaintenanceWindow"
    window: MaintenanceWindow


@dataclass(frozen=True, slots=True)
class WindowGone(Event):
    kind = "MaintenanceWindow"
    name: str
"""
_HANDLERS = """
        self._windows: dict[str, MaintenanceWindow] = {}

    def current_events(self) -> Iterator[Event]:
        return map(WindowSeen, self._windows.values())

    @on(WindowSeen)
    def _window_seen(self, event: WindowSeen, now: int) -> None:
        if event.window.node == "broken":
            raise ValueError("broken")
        self._windows[event.window.name] = event.window

    @on(WindowGone)
    def _window_gone(self, event: WindowGone, now: int) -> None:
        del self._windows[event.name]
"""
_READER = """
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.objects.metadata import identity
from ringwise.manifests.text.wire import MetaWire, WireStruct
from ringwise.scheduler.core.drain_events import MaintenanceWindow


class WindowSpecWire(WireStruct):
    node: str | None = None


class WindowWire(WireStruct):
    metadata: MetaWire | None = None
    spec: WindowSpecWire | None = None


def window_from_wire(wire: WindowWire, found: Findings) -> MaintenanceWindow:
    who = identity(wire.metadata, "MaintenanceWindow", found, namespaced=False)
    return MaintenanceWindow(who.name, (wire.spec or WindowSpecWire()).node or "")
"""
_IMPORTS = """
from ringwise.manifests.maintenance_windows import WindowWire, window_from_wire
from ringwise.scheduler.core.drain_events import MaintenanceWindow, WindowGone, WindowSeen
"""
_ROW = """
    Kind(
        MaintenanceWindow,
        wellknown.ApiResource(
            "windows.example.com/v1", "MaintenanceWindow", "maintenancewindows", namespaced=False
        ),
        WindowSeen,
        WindowGone,
        lambda window: (window.name,),
        reader=_reader(WindowWire, window_from_wire),
        optional=True,
    ),
"""

#: What must hold for it then. It runs in a process of its own, with the changed sources.
_CHECKS = """
import json
import sys
from pathlib import Path

import msgspec

from ringwise.apps.journal.format import JournalWriter, open_journal
from ringwise.apps.lab.submission import Submission, submission_of
from ringwise.apps.loading import cluster_events
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.store import Store
from ringwise.kube.run.core_thread import _for_scheduler
from ringwise.kube.watch.readers import Observed
from ringwise.kube.watch.kinds import watched_kinds
from ringwise.kube.watch.objects import change_events
from ringwise.manifests.bundle import read_text
from ringwise.manifests.kinds import Watcher, rights
from ringwise.manifests.text.errors import Findings
from ringwise.messages.commands import SetAside
from ringwise.scheduler.core.drain_events import MaintenanceWindow, WindowGone, WindowSeen
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from ringwise.scheduler.journal import Journal

folder = Path(sys.argv[1])
wanted = {
    "apiVersion": "windows.example.com/v1",
    "kind": "MaintenanceWindow",
    "metadata": {"name": "june", "resourceVersion": "7"},
    "spec": {"node": "node-1"},
}
june = MaintenanceWindow("june", "node-1")

# A file, and the events of its objects.
bundle = read_text(json.dumps(wanted).encode(), "windows.yaml")
assert (bundle.errors, bundle.notes, bundle.of(MaintenanceWindow)) == ([], [], [june])
assert list(cluster_events(bundle)) == [WindowSeen(june)]
untyped = read_text(b'{"kind": "MaintenanceWindowList", "items": [{"metadata": {"name": "june"}}]}', "list")
assert [one.message for one in untyped.errors] == [] and len(untyped.of(MaintenanceWindow)) == 1

# A lab, and its folder.
sent, problems = submission_of(bundle)
received = msgspec.json.decode(msgspec.json.encode(sent), type=Submission)
cluster = EmbeddedCluster()
cluster.submit_all(received.objects())
store = Store(folder / "lab.db")
store.save(cluster.table, 0)
store.close()
again = EmbeddedCluster(table=Store(folder / "lab.db").load()[0])
assert (problems, again.all(MaintenanceWindow)) == ([], [june])
assert again.delete("MaintenanceWindow", "june")

# A watch: added, deleted, and heard by the scheduler alone.
((target, reader),) = (
    one for one in watched_kinds(Observed()) if one[0].title == "maintenancewindows"
)
page = reader.page(json.dumps({"metadata": {}, "items": [wanted]}).encode())
objects = reader.read(page.items[0], Findings("window"))
assert (target.path, target.optional) == ("/apis/windows.example.com/v1/maintenancewindows", True)
assert list(change_events((), objects)) == [WindowSeen(june)]
assert list(change_events(objects, ())) == [WindowGone("june")]
assert _for_scheduler([WindowSeen(june)]) == [WindowSeen(june)]
(rule,) = (one for one in rights(Watcher.SCHEDULER) if one["apiGroups"] == ["windows.example.com"])
assert rule == {
    "apiGroups": ["windows.example.com"], "resources": ["maintenancewindows"], "verbs": ["list", "watch"]
}

# The scheduler: heard, known to a what-if, in the journal, and set aside when it raises.
scheduler = Scheduler(registry=BUILT_IN, catalog=shipped_catalog())
with (folder / "journal").open("wb") as file:
    sink = JournalWriter(file, default_configuration(), ["volcano"])
    scheduler.journal = Journal(default_configuration(), sink=sink)
    scheduler.handle([WindowSeen(june)], 0)
    assert WindowSeen(june) in scheduler.view.current_events()
    commands = scheduler.handle([WindowSeen(MaintenanceWindow("july", "broken"))], 1)
    (aside,) = (one for one in commands if isinstance(one, SetAside))
    assert (aside.kind, aside.key) == ("MaintenanceWindow", "july")
    scheduler.handle([WindowGone("june")], 2)
    assert WindowSeen(june) not in scheduler.view.current_events()
read = [batch.events for batch in open_journal(folder / "journal").batches]
assert [type(event) for events in read for event in events] == [WindowSeen, WindowSeen, WindowGone]
assert read[0] == (WindowSeen(june),)
"""


def _after(text: str, line: str, more: str) -> str:
    assert text.count(line) == 1, line
    return text.replace(line, line + more)


@pytest.mark.full
def test_a_new_kind_touches_its_reader_its_handler_the_table_and_its_test(tmp_path: Path) -> None:
    """With this file, which has what its test would have, it touches four."""
    copy = tmp_path / "src" / "ringwise"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "page"))

    def touch(path: Path, text: str) -> None:
        (copy / path.relative_to(PACKAGE)).write_text(text, encoding="utf-8")

    heard, table = COMPONENT.read_text(encoding="utf-8"), TABLE.read_text(encoding="utf-8")
    first = "from ringwise.framework.job import Job\n"
    last = "        self._leaving: dict[tuple[str, str], tuple[Job, list[Pod]]] = {}\n"
    touch(COMPONENT, _after(_after(heard, last, _HANDLERS), first, _VALUE))
    touch(READER, _READER)
    table = _after(table, "from ringwise.messages import events as ev\n", _IMPORTS)
    touch(TABLE, _after(table, "KINDS: tuple[Kind[Any], ...] = (\n", _ROW))
    answer = subprocess.run(
        [sys.executable, "-c", _CHECKS, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-4000:]
