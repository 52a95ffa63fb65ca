"""The dashboard of a lab, and of something that does not change: manifests, or the end of a journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ringwise import __version__
from ringwise.apps.forked_queries import ForkedQueries
from ringwise.apps.journal.format import JournalError, open_journal
from ringwise.apps.replay import decided_again
from ringwise.apps.web.job_documents import Documents, SchedulerAnswers
from ringwise.grammar import counted
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.view import SchedulerView
from ringwise.state.changes import Changes
from ringwise.topology.boards import BoardCatalog
from ringwise.views.documents.dashboard import DashboardSource
from ringwise.web.application import DashboardServer
from ringwise.web.guard import Guard
from ringwise.web.hub import Answer, Hub, WatchedScheduler

if TYPE_CHECKING:
    from ringwise.apps.lab.lab import LiveLab


class _Snapshot:
    """A scheduler that handles nothing more."""

    def __init__(self, view: SchedulerView) -> None:
        self.view = view

    def record_changes(self, changes: Changes | None) -> None:
        """Nothing changes."""


class LoopCore:
    """A scheduler that lives on the event loop: every call is made between two of its turns."""

    def __init__(self, current: Callable[[], tuple[WatchedScheduler, int]]) -> None:
        """`current` returns the scheduler and the time."""
        self._current = current

    async def call(self, work: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        return work(*self._current())

    copy = call


def dashboard_source(kind: str, name: str, leader: str = "", *, live: bool = True) -> DashboardSource:
    return {"kind": kind, "name": name, "version": __version__, "live": live, "leader": leader}


def lab_dashboard(live: LiveLab, forked_queries: ForkedQueries | None = None) -> DashboardServer:
    core = LoopCore(lambda: (live.scheduler, live.now))

    def journals() -> list[Path]:
        return [live.folder.older_journal, live.folder.journal]

    async def accounts() -> Documents:
        return live.accounts.read()

    answers = SchedulerAnswers(
        core, journals, forked_queries or ForkedQueries(), accounts=accounts, renews_reports=False
    )
    hub = Hub(core, lambda: dashboard_source("lab", str(live.folder.path)))
    return DashboardServer(hub, answers, Guard())


def snapshot_dashboard(
    view: SchedulerView, now: int, kind: str, name: str, journals: Sequence[Path] = ()
) -> DashboardServer:
    snapshot = _Snapshot(view)
    core = LoopCore(lambda: (snapshot, now))

    hub = Hub(core, lambda: dashboard_source(kind, name, live=False))
    return DashboardServer(hub, SchedulerAnswers(core, lambda: journals), Guard())


def end_of_journal(path: Path, catalog: BoardCatalog) -> tuple[SchedulerView, int, list[str]]:
    """The view of a scheduler that handled a whole journal, the time of its end, and notes.

    What a gap or a rotation cut off from its beginning cannot be decided again and is left out.
    Raises JournalError.
    """
    journal = open_journal(path)
    scheduler: Scheduler | None = None
    now = omitted = 0
    for recorded, scheduler, _ in decided_again(journal, catalog):
        omitted += scheduler is None
        now = now if scheduler is None else recorded.now
    if scheduler is None:
        raise JournalError(f"{path}: no file contains the start of the last scheduler")
    notes = list(journal.notes)
    if omitted:
        notes.append(f"omitted: {counted(omitted, 'turn')}; what came before is not in the journal")
    return scheduler.view, now, notes
