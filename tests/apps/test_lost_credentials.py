"""Credentials that cannot be read for a moment: no task of a component ends, and answers say why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ringwise.apps import kube_scheduler
from ringwise.apps.admission.queue_reads import QueueLister
from ringwise.apps.admission.rules import ClusterFacts
from ringwise.apps.forked_queries import QuestionFailedError
from ringwise.apps.web.kube import list_budgets, read_documents
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import direct
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.web.guard import RequestRefusedError
from tests.kube.harness import InstantClock

WHY = "token file /t: No such file or directory"


class LockedOut(Client):
    """Has no credentials now."""

    def __init__(self) -> None:
        super().__init__(direct("http://127.0.0.1:1"))

    async def request(self, *_: Any, **__: Any) -> bytes:
        raise KubeConfigError(WHY)


async def test_a_review_is_decided_by_what_was_watched() -> None:
    lister = QueueLister(LockedOut(), InstantClock())
    assert await lister.updated(ClusterFacts(shipped_catalog()), "team") is None


async def test_the_dashboard_says_what_cannot_be_read() -> None:
    assert await list_budgets(LockedOut()) == ((), (f"disruption budgets: {WHY}",))

    async def documents() -> Any:
        raise KubeConfigError(WHY)

    with pytest.raises(RequestRefusedError, match="accounting cannot be read: token file"):
        await read_documents(documents)


async def test_moves_are_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: dict[str, Callable[..., Awaitable[object]]] = {}

    async def keep_moving(_: object, __: object, create: Any, ___: object, budgets: Any) -> None:
        parts.update(create=create, budgets=budgets)

    class Deciding:
        deciding = asyncio.Event()

    Deciding.deciding.set()
    monkeypatch.setattr(kube_scheduler, "keep_moving", keep_moving)
    runner: Any = Deciding()
    scheduler: Any = None
    await kube_scheduler.move_jobs(runner, LockedOut(), lambda: scheduler)
    with pytest.raises(QuestionFailedError, match="disruption budgets cannot be read: token file"):
        await parts["budgets"]()
    with pytest.raises(QuestionFailedError, match="the MovePlan is not created: token file"):
        await parts["create"]({"metadata": {"name": "m"}})
