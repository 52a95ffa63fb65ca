"""`reset-config-<job>`: changed where it exists, as Huawei's components read it; what fails hurts nothing."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.kube.write.object_writers import ResetConfigs
from ringwise.kubeclient.retry import Retrier
from ringwise.manifests.config_maps.reset_config import changed
from ringwise.messages.commands import SetResetConfig
from tests.kube.harness import CONFIG_MAPS, InstantClock, server

NAME = "reset-config-train"
PATH = f"/api/v1/namespaces/team/configmaps/{NAME}"
EXIT = SetResetConfig("team", "train", graceful_exit=True)
GO_ON = SetResetConfig("team", "train", graceful_exit=False)
PODS_REPLACED = SetResetConfig("team", "train", whole_job_restarted=False, seconds=1700)
JOB_REPLACED = SetResetConfig("team", "train", whole_job_restarted=True, seconds=1700)

INITIAL = '{"status":"initializing"}'
RANK = {"RankId": 3, "LogicId": 3, "Status": "unrecovered", "ErrorCode": [1, 2], "ErrorCodeHex": "<1>"}


def reset(**fields: Any) -> dict[str, Any]:
    usual = {
        "RankList": None,
        "UpdateTime": 0,
        "RetryTime": 0,
        "FaultFlushing": False,
        "GracefulExit": 0,
        "RestartFaultProcess": False,
    }
    return usual | fields


@pytest.mark.parametrize(
    ("before", "command", "after"),
    [
        (INITIAL, EXIT, reset(GracefulExit=1)),
        (json.dumps(reset(GracefulExit=1, RetryTime=2)), GO_ON, reset(RetryTime=2)),
        (json.dumps(reset(RankList=[RANK])), EXIT, reset(RankList=[RANK], GracefulExit=1)),
        (
            json.dumps(reset(RankList=[RANK], RetryTime=1, FaultFlushing=True)),
            PODS_REPLACED,
            reset(RankList=[], RetryTime=2, UpdateTime=1700, FaultFlushing=True),
        ),
        (json.dumps(reset(RetryTime=4)), JOB_REPLACED, reset(RankList=[], UpdateTime=1700)),
        ('{"RetryTime": 2147483647}', PODS_REPLACED, reset(RankList=[], RetryTime=1, UpdateTime=1700)),
        ('{"RankList": 7, "RetryTime": "x", "GracefulExit": true}', GO_ON, reset()),
    ],
)
def test_what_is_written(before: str, command: SetResetConfig, after: dict[str, Any]) -> None:
    data = changed(before, command)
    assert data is not None
    text = data["reset.json"]
    assert json.loads(text) == after
    assert list(json.loads(text)) == list(after), "the order of the checksum"
    assert "<" not in text
    assert data["checkCode"] == hashlib.sha256(text.encode()).hexdigest()
    assert data.get("restartType") == (None if command.whole_job_restarted is None else "podReschedule")


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_hostile_content_is_left_as_it_is(text: str) -> None:
    assert changed(text, EXIT) is None


def test_what_cannot_be_encoded_is_left_as_it_is() -> None:
    assert changed('{"RankList": ["\\ud800"]}', EXIT) is None
    assert changed("[" * 100_000, EXIT) is None


def stored(api: Any) -> dict[str, str]:
    (found,) = api.all(CONFIG_MAPS)
    data: dict[str, str] = found["data"]
    return data


def config_map(**data: Any) -> dict[str, Any]:
    return {"metadata": {"name": NAME, "namespace": "team"}, "data": data}


async def test_it_is_changed_where_it_exists_and_other_keys_stay() -> None:
    async with server() as (api, client):
        api.put(CONFIG_MAPS, config_map(**{"reset.json": INITIAL, "other": "kept"}))
        await ResetConfigs(client, Retrier(InstantClock())).write(EXIT)
        assert json.loads(stored(api)["reset.json"])["GracefulExit"] == 1
        assert stored(api)["other"] == "kept"


async def test_it_is_never_created() -> None:
    async with server() as (api, client):
        await ResetConfigs(client, Retrier(InstantClock())).write(EXIT)
        assert api.all(CONFIG_MAPS) == []
        assert [method for method, _ in api.requests] == ["GET"]


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_a_refused_write_is_told_once_and_hurts_nothing(
    method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with server() as (api, client):
        api.put(CONFIG_MAPS, config_map(**{"reset.json": INITIAL}))
        configs = ResetConfigs(client, Retrier(InstantClock()))
        for _ in range(2):
            api.fault(f"{method} {PATH}", status=403)
            await configs.write(EXIT)
        assert stored(api) == {"reset.json": INITIAL}
        await configs.write(EXIT)
        assert json.loads(stored(api)["reset.json"])["GracefulExit"] == 1, "the right was given meanwhile"
    written = capsys.readouterr()
    assert (written.out + written.err).count("no permission to change reset configurations") == 1


@pytest.mark.parametrize("data", [{}, {"reset.json": "no json"}, {"reset.json": "[]"}])
async def test_a_configuration_that_cannot_be_read_stays(data: dict[str, str]) -> None:
    async with server() as (api, client):
        api.put(CONFIG_MAPS, config_map(**data))
        await ResetConfigs(client, Retrier(InstantClock())).write(EXIT)
        assert stored(api) == data
