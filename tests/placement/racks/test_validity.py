"""Which jobs are cut into blocks and logical racks, and the reason of each refusal (R1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.placement.racks.model import RackShape
from ringwise.placement.racks.validity import check_rack_job
from ringwise.reasons import Reason
from tests.placement.racks import reference

BLOCKS = st.one_of(st.none(), st.integers(-8, 40), st.sampled_from([16, 24, 32, 48, 64, 96, 128, 1024]))
REQUESTS = st.one_of(
    st.lists(st.integers(0, 17), min_size=1, max_size=3),
    st.integers(1, 40).map(lambda pods: [8] * pods),
    st.integers(1, 12).map(lambda pods: [8] * pods + [0]),
    st.sampled_from([128, 136, 160]).map(lambda pods: [8] * pods),
)
SIZES = st.sampled_from([0, 1, 4, 8, 48, 1024, 1025])


@given(REQUESTS, BLOCKS, BLOCKS, SIZES, st.booleans())
def test_the_rules_decide_as_they_read_R1(
    requests: list[int], sp_block: int | None, ra_block: int | None, size: int, ub: bool
) -> None:
    if not any(requests):
        return
    answer = check_rack_job(requests, sp_block, ra_block, super_pod_size=size, ub_memory=ub)
    assert isinstance(answer, Reason) == (
        reference.invalid(requests, sp_block, ra_block, size, ub) is not None
    )
    if isinstance(answer, RackShape):
        assert answer.pods == sum(request > 0 for request in requests)


@pytest.mark.parametrize(
    ("requests", "sp_block", "ra_block", "size", "ub", "code"),
    [
        ([8, 8], "0", None, 48, False, "sp-block-not-positive"),
        ([8, 8], "-8", None, 48, False, "sp-block-not-positive"),
        ([8, 8], "sixteen", None, 48, False, "sp-block-not-a-number"),
        ([8, 8], "12", None, 48, False, "sp-block-not-whole-nodes"),
        ([8, 8, 8], "16", None, 48, False, "rack-pods-do-not-fill-blocks"),
        ([16], "16", None, 48, False, "rack-pods-do-not-fill-blocks"),
        ([8, 8], "16", None, 1025, False, "rack-super-pod-size-range"),
        ([8] * 16, "128", None, 8, False, "sp-block-above-superpod"),
        ([8, 8], "16", "0", 48, False, "ra-block-range"),
        ([8, 8], "16", "65", 48, False, "ra-block-range"),
        ([8, 8], "16", "many", 48, False, "ra-block-range"),
        ([8, 8], "16", "24", 48, False, "ra-block-range"),
        ([8] * 8, "32", "64", 48, False, "ra-block-above-sp-block"),
        ([8] * 6, "48", "32", 48, False, "ra-block-pods-do-not-divide"),
        ([8] * 12, "48", "32", 48, False, "sp-block-not-whole-racks"),
        ([4], "8", None, 48, False, "superpod-one-pod-block"),
        ([4, 4], "8", None, 48, False, "superpod-pod-not-whole-node"),
        ([8, 8], "3", None, 48, False, "superpod-blocks-do-not-divide"),
        ([8] * 136, "64", None, 1024, True, "ub-memory-too-large"),
    ],
)
def test_a_refusal_names_its_rule_R1(
    requests: list[int], sp_block: str, ra_block: str | None, size: int, ub: bool, code: str
) -> None:
    answer = check_rack_job(requests, sp_block, ra_block, super_pod_size=size, ub_memory=ub)
    assert isinstance(answer, Reason)
    assert answer.code == code
    assert "unknown" not in answer.message
    assert answer.fixes
    assert not any("unknown" in fix for fix in answer.fixes)


@pytest.mark.parametrize(
    ("requests", "sp_block", "ra_block", "shape"),
    [
        ([8] * 16, "64", "32", RackShape(8, 4, 2)),
        ([8] * 16, None, None, RackShape(16, 1, 1)),
        ([8] * 3, "24", "1", RackShape(3, 1, 1)),
        ([4], None, None, RackShape(1, 1, 1)),
        ([4], "4", "2", RackShape(1, 1, 1)),
        ([8, 8], "4", None, RackShape(1, 1, 2)),
        ([8] * 8 + [0, 0], "64", "64", RackShape(8, 8, 1)),
        ([0, 0], None, None, RackShape(1, 1, 0)),
    ],
)
def test_how_a_job_is_cut_R1(
    requests: list[int], sp_block: str | None, ra_block: str | None, shape: RackShape
) -> None:
    assert check_rack_job(requests, sp_block, ra_block, super_pod_size=48) == shape
