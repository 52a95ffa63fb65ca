"""Shares of chips that the device plugin reports as mounted (V4)."""

from __future__ import annotations

import json

import pytest

from ringwise.manifests.config_maps.device_info import _of_pods, _ShareEntry, _shares_of_resource
from ringwise.manifests.text.errors import Findings
from ringwise.state.model import MountedShare
from ringwise.wellknown import MOUNTED_SHARES_KEY
from tests.builders.values import CHIP

SHARE = {"chip": "Ascend910-2", "mb": 2048, "percent": 50, "policy": "fixed-share"}


def read(text: str, resource: str = CHIP) -> tuple[dict[str, MountedShare], Findings]:
    found = Findings("test")
    entries = _of_pods({MOUNTED_SHARES_KEY: text}, MOUNTED_SHARES_KEY, dict[str, _ShareEntry], found)
    return _shares_of_resource(entries, resource, found), found


def test_shares_are_read_by_pod() -> None:
    shares, found = read(json.dumps({"uid-a": SHARE}))
    assert shares == {"uid-a": MountedShare(2, 50, 2048, "fixed-share")}
    assert not found.errors


def test_shares_of_another_resource_are_left_to_its_report() -> None:
    assert read(json.dumps({"uid-a": SHARE}), "huawei.com/npu")[0] == {}


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        '{"u": 3}',
        json.dumps({"u": {**SHARE, "chip": "Ascend910-0,Ascend910-1"}}),
        json.dumps({"u": {**SHARE, "chip": "Ascend910-99999"}}),
        json.dumps({"u": {**SHARE, "percent": 101}}),
        json.dumps({"u": {**SHARE, "mb": -1}}),
    ],
)
def test_a_share_that_cannot_be_read_is_an_error(text: str) -> None:
    assert read(text)[1].errors
