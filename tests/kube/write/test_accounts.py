"""Accounting on Kubernetes: documents in ConfigMaps of ours, written now and then, by whoever leads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ringwise.apps.accounting import AccountFolder, FolderAccounts
from ringwise.apps.live_accounts import accounts_of
from ringwise.kube.write.accounts import AccountKeeper, ConfigMapAccounts
from ringwise.kube.write.own_config_maps import OwnConfigMaps
from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.retry import Retrier
from ringwise.messages.accounting import AccountedJob, HoldEnded, PodHeld
from ringwise.views.report import ReportPeriod, report_document
from tests.kube.harness import InstantClock, ManualClock, server, until

CONFIG_MAPS = "/api/v1/configmaps"
#: Of the clock.
DAY = "2025-10-09"
JOB = AccountedJob("team", "train", "uid-1")


def keeper(client: Client, clock: InstantClock) -> AccountKeeper:
    return AccountKeeper(
        ConfigMapAccounts(OwnConfigMaps(client), Retrier(InstantClock())), clock, clock.sleep
    )


async def test_the_next_leader_goes_on_where_the_one_before_stopped() -> None:
    async with server() as (api, client):
        clock = ManualClock(1000.0)
        first = keeper(client, clock)
        assert (await first.read()).written == 0
        first.apply(PodHeld(JOB, "default", "910-x8", 8, "pod-1", clock.now()))
        await first.write()
        found = api.get(CONFIG_MAPS, "volcano-system/ringwise-accounting-00")
        assert json.loads(found["data"]["accounting.json"])["jobs"][0]["name"] == "train"
        assert found["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "ringwise"}
        await clock.pass_time(50)
        second = keeper(client, clock)
        (held,) = (await second.read()).held
        assert (held.job, held.chips, held.pod) == (JOB, 8, "pod-1")
        second.apply(HoldEnded("pod-1", clock.now(), clock.now()))
        await second.write()
        documents = await accounts_of(client, "volcano-system")
        report = report_document(documents, ReportPeriod(DAY, DAY), "job")
        assert report.totals[0].allocated_chip_hours == round(8 * 50 / 3600, 4)


async def test_documents_are_written_once_a_minute_and_once_more_at_the_end() -> None:
    async with server() as (api, client):
        clock = ManualClock(1000.0)
        kept = keeper(client, clock)
        await kept.read()
        kept.lead()

        def written() -> int:
            return sum(method in ("PATCH", "POST") and "accounting" in path for method, path in api.requests)

        await until(lambda: clock.sleeping)
        for minute in range(3):
            before = written()
            for second in range(59):
                pod = f"pod-{minute}-{second}"
                kept.apply(PodHeld(JOB, "default", "910-x8", 8, pod, clock.now()))
                await clock.pass_time(1)
            assert written() == before
            await clock.pass_time(1)
            await until(lambda: clock.sleeping)
            assert written() > before
        kept.apply(PodHeld(JOB, "default", "910-x8", 8, "pod-last", clock.now()))
        await kept.stop()
        found = api.get(CONFIG_MAPS, "volcano-system/ringwise-accounting-00")
        assert "pod-last" in found["data"]["accounting.json"]


async def test_a_config_map_of_somebody_else_is_told_and_left_alone() -> None:
    async with server() as (api, client):
        name = {"name": "ringwise-accounting-00", "namespace": "volcano-system"}
        theirs = api.put(CONFIG_MAPS, {"metadata": name, "data": {"mine": "text"}})
        clock = ManualClock(1000.0)
        kept = keeper(client, clock)
        await kept.read()
        kept.apply(PodHeld(JOB, "default", "910-x8", 8, "pod-1", clock.now()))
        await kept.write()
        found = api.get(CONFIG_MAPS, "volcano-system/ringwise-accounting-00")
        assert found["data"] == theirs["data"] == {"mine": "text"}
        assert api.get(CONFIG_MAPS, "volcano-system/ringwise-accounting-01")["data"]


async def test_what_cannot_be_written_is_written_later(tmp_path: Path) -> None:
    clock = ManualClock(1000.0)
    blocked = tmp_path / "accounting"
    blocked.write_text("no folder")
    kept = AccountKeeper(FolderAccounts(AccountFolder(blocked)), clock)
    await kept.read()
    kept.apply(PodHeld(JOB, "default", "910-x8", 8, "pod-1", clock.now()))
    await kept.write()
    blocked.unlink()
    await kept.write()
    assert [path.name for path in blocked.iterdir()] == [f"{DAY}-00.json"]


async def test_who_may_not_read_them_is_told_so() -> None:
    async with server() as (api, client):
        api.fault("GET /api/v1/namespaces/volcano-system/configmaps/ringwise-accounting-00", status=403)
        with pytest.raises(ApiError, match=r"403|orbidden"):
            await accounts_of(client, "volcano-system")
