"""Amounts with shares of chips: exact, and `int` where there are no shares (V18)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ringwise.framework.amounts import (
    Amount,
    Amounts,
    WeightedClaim,
    add,
    as_number,
    plain,
    share,
    share_out,
)
from ringwise.grammar import amount_text
from ringwise.manifests.text.quantities import written
from ringwise.reasons import ReasonKind, Stage
from tests.builders.values import CHIP

HALF, QUARTER = Decimal("0.50"), Decimal("0.25")


def test_a_sum_of_shares_is_exact_and_whole_sums_are_int_V18() -> None:
    total: Amounts = {}
    for _ in range(101):
        add(total, {CHIP: Decimal("0.01")})
    assert total == {CHIP: Decimal("1.01")}
    add(total, {CHIP: Decimal("0.01")}, -1)
    assert total == {CHIP: 1}
    assert type(total[CHIP]) is int
    add(total, {CHIP: HALF}, 2)
    assert type(total[CHIP]) is int
    add(total, {CHIP: Decimal("2.00")}, -1)
    assert total == {}


def test_people_see_two_decimals_and_objects_a_quantity_V18() -> None:
    kind = ReasonKind("some", Stage.ENQUEUE, "{used} of {resource} used", ())
    reason = kind(used=Decimal("4.75"), resource=CHIP)
    assert reason.message == f"4.75 of {CHIP} used"
    assert reason.as_json()["details"] == {"used": 4.75, "resource": CHIP}
    assert [amount_text(CHIP, one) for one in (4, Decimal("4.50"), 4.5)] == ["4", "4.50", "4.50"]
    assert [written(CHIP, one) for one in (4, Decimal("4.75"), HALF)] == ["4", "4750m", "500m"]
    assert plain({CHIP: QUARTER, "cpu": 500}) == {CHIP: 0.25, "cpu": 500}
    assert type(as_number(3)) is int


def test_the_largest_fraction_is_a_float_V18() -> None:
    found = share({CHIP: HALF, "cpu": 100}, {CHIP: 2, "cpu": 1000})
    assert (found, type(found)) == (0.25, float)


@pytest.mark.parametrize(
    ("total", "claims", "shares"),
    [
        # Whole amounts stay whole, as without shares.
        (10, [(1, 9, 0), (1, 9, 0), (1, 9, 0)], [4, 3, 3]),
        (10, [(1, Decimal("9.50"), 0), (1, 9, 0), (1, 9, 0)], ["3.34", "3.33", "3.33"]),
        (1, [(3, HALF, 0), (1, 1, 0)], ["0.50", "0.50"]),
        (Decimal("1.50"), [(1, 1, 0), (2, 2, 0)], ["0.50", "1"]),
        (2, [(1, QUARTER, 0), (1, 1, 0)], ["0.25", "1"]),
    ],
)
def test_amounts_with_shares_are_shared_out_in_hundredths_V18(
    total: Amount, claims: list[tuple[int, Amount, Amount]], shares: list[object]
) -> None:
    found = share_out(total, [WeightedClaim(*claim) for claim in claims])
    assert found == [Decimal(str(one)) for one in shares]
