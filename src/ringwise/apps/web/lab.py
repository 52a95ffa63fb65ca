"""The dashboard of a lab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ringwise import __version__
from ringwise.apps.forked_queries import ForkedQueries
from ringwise.apps.lab.lab import LiveLab
from ringwise.apps.web.job_documents import Documents, SchedulerAnswers
from ringwise.views.documents.dashboard import DashboardSource
from ringwise.web.application import DashboardServer
from ringwise.web.core import Answer, WatchedScheduler
from ringwise.web.guard import Guard
from ringwise.web.hub import Hub


class LabCore:
    """The lab lives on the event loop: every call is made between two of its turns."""

    def __init__(self, live: LiveLab) -> None:
        self._live = live

    async def call(self, work: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        return work(self._live.scheduler, self._live.now)

    async def copy(self, fork: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        return await self.call(fork)


def lab_dashboard(live: LiveLab, forked_queries: ForkedQueries | None = None) -> DashboardServer:
    core = LabCore(live)

    def source() -> DashboardSource:
        return {
            "kind": "lab",
            "name": str(live.folder.path),
            "version": __version__,
            "live": True,
            "leader": "",
        }

    def journals() -> list[Path]:
        return [live.folder.older_journal, live.folder.journal]

    async def accounts() -> Documents:
        return live.accounts.read()

    answers = SchedulerAnswers(
        core, journals, forked_queries or ForkedQueries(), accounts=accounts, renews_reports=False
    )
    return DashboardServer(Hub(core, source), answers, Guard())
