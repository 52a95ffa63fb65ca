"""The list `<resource>-Fault` of a device report: codes and levels of each chip."""

from __future__ import annotations

import json

import pytest

from ringwise.manifests.config_maps.device_info import _chip_faults
from ringwise.state.model import ReportedFault
from tests.builders.values import CHIP


def test_each_code_has_its_own_level_where_that_is_known() -> None:
    entry = {
        "fault_type": "CardUnhealthy",
        "npu_name": "Ascend910-3",
        "fault_level": "SeparateNPU",
        "fault_handling": "SeparateNPU",
        "fault_code": "80E01801, 81078603",
        "fault_time_and_level_map": {"81078603": {"fault_time": 5, "fault_level": "NotHandleFault"}},
    }
    assert _chip_faults(json.dumps([entry]), CHIP) == (
        ReportedFault(3, "80E01801", "SeparateNPU"),
        ReportedFault(3, "81078603", "NotHandleFault"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "nonsense",
        "{}",
        '[{"npu_name": "npu-1", "fault_code": "1"}]',
        '[{"npu_name": "Ascend910-99999", "fault_code": "1"}]',
        '[{"npu_name": 7}]',
        "[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_as_none(text: str) -> None:
    assert _chip_faults(text, CHIP) == ()
