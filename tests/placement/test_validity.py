"""Rule N2: the requests that a board allows."""

from __future__ import annotations

import pytest

from ringwise.manifests.settings.boards import shipped_boards
from ringwise.placement.validity import check_requests


@pytest.mark.parametrize(
    ("board", "requests", "mode", "code"),
    [
        ("910-x8", [8, 8, 8], "document", None),
        ("910-x8", [8, 0, 8], "document", None),
        ("910-x8", [4, 0], "document", None),
        ("910-x8", [0], "document", None),
        ("910-x8", [0], "vendor", "no-chips-requested"),
        ("910-x8", [4, 4], "document", "multi-pod-request-not-allowed"),
        ("910-x8", [8, 4], "document", "multi-pod-request-not-allowed"),
        ("910-x8", [4, 4], "vendor", None),
        ("910-x8", [3, 4], "vendor", "request-not-allowed"),
        ("910-x8", [16], "document", "request-not-allowed"),
        ("910-half", [3], "document", "request-not-allowed"),
        ("910-half", [4, 2], "document", None),
        ("910-card", [8], "document", None),
        ("910b-x8", [3, 5], "document", None),
        ("910b-x8", [0, 5], "document", None),
        ("910b-x16", [9], "document", "request-not-allowed"),
        ("910b-x16", [10, 16], "document", None),
        ("a3-x16", [1], "document", None),
        ("a3-x16", [1, 2], "document", "request-not-allowed"),
        ("a3-x16", [2, 16], "document", None),
        ("a3-x16", [18], "document", "request-not-allowed"),
        ("a3-x16", [2, 0], "document", "pod-without-chips"),
        ("a3-x16-superpod", [16, 8], "document", "request-not-allowed"),
        ("mesh4-x8", [8, 8], "document", None),
        ("mesh4-x8", [9], "document", "request-not-allowed"),
        ("310p-duo-chip-distributed", [3], "document", None),
        ("310p-duo-chip-distributed", [3, 1], "document", "one-pod-only"),
        ("310p-duo-card-distributed", [1, 1], "document", "one-pod-only"),
        ("310p-duo-chip", [3, 1], "document", None),
    ],
)
def test_requests_N2(board: str, requests: list[int], mode: str, code: str | None) -> None:
    reason = check_requests(shipped_boards()[board], requests, multi_pod_requests=mode)
    assert (reason.code if reason else None) == code
    if reason:
        assert board in reason.message
        assert reason.fixes
        assert "unknown)" not in reason.message + "".join(reason.fixes)


def test_exempt_pods_need_no_chips_N2() -> None:
    board = shipped_boards()["a3-x16"]
    assert check_requests(board, [2, 0], exempt=[False, True]) is None
    assert check_requests(board, [2, 0], exempt=[True, False]) is not None
    assert check_requests(board, [0], exempt=[True]) is None


def test_the_total_that_the_job_states_is_checked_N2() -> None:
    odd = check_requests(shipped_boards()["a3-x16"], [2, 2], total=3)
    assert odd is not None
    assert odd.message == (
        "the job requests 3 chips in total; on a3-x16 the total must be 1 or a multiple of 2"
    )
    assert odd.fixes == ("request 2 chips in total", "request 4 chips in total")
    large = check_requests(shipped_boards()["mesh4-x8"], [8, 8], total=18)
    assert large is not None
    assert large.code == "average-too-large"


def test_a_pod_that_is_too_large_is_told_how_it_can_be_split_N2() -> None:
    reason = check_requests(shipped_boards()["910-x8"], [24])
    assert reason is not None
    assert reason.message.endswith("; 3 pods of 8 chips would be allowed")
