"""The dashboard of a lab."""

from __future__ import annotations

from pathlib import Path

from ringwise import __version__
from ringwise.apps.forked_queries import ForkedQueries
from ringwise.apps.lab.lab import LiveLab
from ringwise.apps.web.job_documents import Documents, SchedulerAnswers
from ringwise.apps.web.snapshot import LoopCore
from ringwise.views.documents.dashboard import DashboardSource
from ringwise.web.application import DashboardServer
from ringwise.web.guard import Guard
from ringwise.web.hub import Hub


def lab_dashboard(live: LiveLab, forked_queries: ForkedQueries | None = None) -> DashboardServer:
    core = LoopCore(lambda: (live.scheduler, live.now))

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
