"""The dashboard of a lab."""

from __future__ import annotations

from pathlib import Path

from ringwise.apps.forked_queries import ForkedQueries
from ringwise.apps.lab.lab import LiveLab
from ringwise.apps.web.job_documents import Documents, SchedulerAnswers
from ringwise.apps.web.snapshot import LoopCore, dashboard_source
from ringwise.web.application import DashboardServer
from ringwise.web.guard import Guard
from ringwise.web.hub import Hub


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
