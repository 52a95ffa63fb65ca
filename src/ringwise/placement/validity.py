"""Rule N2: whether a board allows the requests of a job."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.grammar import counted
from ringwise.placement.reasons import (
    AVERAGE_TOO_LARGE,
    MULTI_POD_REQUEST_NOT_ALLOWED,
    NO_CHIPS_ASKED,
    ONE_POD_ONLY,
    POD_WITHOUT_CHIPS,
    REQUEST_NOT_ALLOWED,
    TOTAL_NOT_ALLOWED,
)
from ringwise.reasons import Reason
from ringwise.topology.board import Board
from ringwise.topology.counts import counts_text


def check_requests(
    board: Board,
    requests: Sequence[int],
    *,
    multi_pod_requests: str = "document",
    exempt: Sequence[bool] | None = None,
    total: int | None = None,
) -> Reason | None:
    """Rule N2: None if the board allows the job, else why not.

    `requests` are the chips each pod requests; `exempt` marks pods that need not
    request any; `total` is the total that the job states itself (`minResources`),
    if it does. Most boards ignore pods without chips. A job without any chip is
    not expected here; the documents' rule lets it pass, the other boards refuse it.
    """
    asking = [request for request in requests if request]
    exempt_pods = sum(exempt) if exempt is not None else 0
    if not asking:
        by_document = board.multi_pod != board.multi_pod_vendor and multi_pod_requests == "document"
        if by_document or (requests and exempt_pods == len(requests)):
            return None
        return NO_CHIPS_ASKED(board=board.name, allowed=counts_text(board.one_pod))
    if board.zero_chip_pods_need_annotation:
        without = sum(
            1
            for position, request in enumerate(requests)
            if not request and not (exempt is not None and exempt[position])
        )
        if without:
            return POD_WITHOUT_CHIPS(
                without=without,
                pods=len(requests),
                board=board.name,
                allowed=counts_text(board.requests(len(requests), multi_pod_requests)),
            )
    return _check_pods(board, asking, multi_pod_requests) or _check_total(
        board, sum(asking) if total is None else total, len(asking)
    )


def _check_pods(board: Board, asking: list[int], multi_pod_requests: str) -> Reason | None:
    pods = len(asking)
    allowed = board.requests(pods, multi_pod_requests)
    if pods > 1 and not allowed:
        return ONE_POD_ONLY(pods=pods, board=board.name, one_pod=counts_text(board.one_pod))
    wrong = next((request for request in asking if request not in allowed), None)
    if wrong is None:
        return None
    if pods > 1 and board.multi_pod != board.multi_pod_vendor and multi_pod_requests == "document":
        return MULTI_POD_REQUEST_NOT_ALLOWED(
            pods=pods,
            requests=sorted(set(asking)),
            board=board.name,
            allowed=counts_text(allowed),
            one_pod=counts_text(board.one_pod),
            field=counts_text(board.multi_pod_vendor),
        )
    reason = REQUEST_NOT_ALLOWED(request=wrong, board=board.name, pods=pods, allowed=counts_text(allowed))
    whole = max(board.requests(2, multi_pod_requests), default=0)
    if pods == 1 and whole and wrong > whole and not wrong % whole:
        return reason.with_hints(
            [f"{counted(wrong // whole, 'pod')} of {counted(whole, 'chip')} would be allowed"]
        )
    return reason


def _check_total(board: Board, total: int, pods: int) -> Reason | None:
    multiple = board.total_multiple_of
    if total % multiple and not (total == 1 and pods == 1):
        lower = total - total % multiple
        return TOTAL_NOT_ALLOWED(
            total=total, board=board.name, multiple=multiple, lower=lower, higher=lower + multiple
        )
    if total // pods > board.chips_per_node:
        return AVERAGE_TOO_LARGE(
            total=total,
            pods=pods,
            average=total // pods,
            board=board.name,
            chips=board.chips_per_node,
            most=pods * board.chips_per_node,
        )
    return None
