"""Shares an amount by weight: no claim gets more than it wants, and the rest goes to the others."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from ringwise.framework.amounts import Amount, simplified
from ringwise.records import dataclass


@dataclass(frozen=True, slots=True)
class WeightedClaim:
    weight: int
    #: The most it can use.
    most: Amount
    #: Guaranteed, also when the rest is short.
    least: Amount = 0

    @property
    def is_whole(self) -> bool:
        return isinstance(self.most, int) and isinstance(self.least, int)


def share_out(total: Amount, claims: Sequence[WeightedClaim]) -> list[Amount]:
    """Amounts by weight between each claim's least and most; all of `total` while a claim wants it.

    There is one level at which `level x weight` of all claims, each kept inside its limits,
    adds up to the total. Amounts are whole, or hundredths if shares of chips are among them,
    so the last few units go to the claims that are closest to one more, the first claim first.
    """
    if sum(claim.most for claim in claims) <= total:
        return [claim.most for claim in claims]
    if sum(claim.least for claim in claims) >= total:
        return [claim.least for claim in claims]
    level = _level(total, claims)
    exact = [min(Fraction(claim.most), max(Fraction(claim.least), level * claim.weight)) for claim in claims]
    whole = isinstance(total, int) and all(claim.is_whole for claim in claims)
    units = 1 if whole else 100
    if not whole:
        exact = [amount * units for amount in exact]
    shares = [amount.numerator // amount.denominator for amount in exact]
    closest = sorted(range(len(claims)), key=lambda i: (shares[i] - exact[i], i))
    for i in closest[: int(total * units) - sum(shares)]:
        shares[i] += 1
    return [*shares] if whole else [simplified(Decimal(amount).scaleb(-2)) for amount in shares]


def _level(total: Amount, claims: Sequence[WeightedClaim]) -> Fraction:
    """Raise the level from 0; the sum bends where a claim leaves its least or meets its most."""
    bends: list[tuple[Fraction, int]] = []
    for claim in claims:
        bends.append((Fraction(claim.least) / claim.weight, claim.weight))
        bends.append((Fraction(claim.most) / claim.weight, -claim.weight))
    bends.sort()
    reached = Fraction(sum(claim.least for claim in claims))
    level = Fraction(0)
    slope = 0
    for bend, change in bends:
        ahead = reached + slope * (bend - level)
        if ahead >= total:
            break
        reached, level = ahead, bend
        slope += change
    return level + (Fraction(total) - reached) / slope
