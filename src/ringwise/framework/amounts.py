"""Amounts of resources: cpu in milli-cores, memory in bytes, everything else in units.

A share of a chip is a `Decimal` with two places, so that sums are exact. Amounts without shares are `int`:
they cost and print the same as if there were no shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from weakref import WeakKeyDictionary

from ringwise.grammar import amount_text
from ringwise.records import dataclass
from ringwise.state.model import SOFT, PodClass

Amount = int | Decimal
Amounts = dict[str, Amount]

_amounts_of: WeakKeyDictionary[PodClass, Mapping[str, Amount]] = WeakKeyDictionary()

#: Names in `minResources` that only ResourceQuotas have. What pods use is not counted under them.
_QUOTA_NAMES = ("requests.", "limits.", "count/")


def without_quota_names(amounts: Mapping[str, Amount]) -> Amounts:
    """The part of `minResources` that nodes offer and queues limit."""
    return {
        name: amount
        for name, amount in amounts.items()
        if name != "pods" and not name.startswith(_QUOTA_NAMES)
    }


def amounts_of(pod_class: PodClass) -> Mapping[str, Amount]:
    """What one pod of this class requests, never changed; a resource that is absent is not requested."""
    amounts = _amounts_of.get(pod_class)
    if amounts is None:
        amounts = _amounts_of[pod_class] = _requests(pod_class)
    return amounts


def _requests(pod_class: PodClass) -> Amounts:
    requests: Amounts = {}
    if pod_class.cpu_milli:
        requests["cpu"] = pod_class.cpu_milli
    if pod_class.memory:
        requests["memory"] = pod_class.memory
    if pod_class.resource is not None and pod_class.chips:
        requests[pod_class.resource] = pod_class.chips
    part = pod_class.part
    if part is not None:
        # A share counts in hundredths of a chip; vNPUs count as Kubernetes does (V18).
        is_share = part.mode == SOFT
        requests[part.resource] = simplified(Decimal(part.hundredths) / 100) if is_share else part.count
    for name, amount in pod_class.extended:
        requests[name] = requests.get(name, 0) + amount
    return requests


def request_text(pod_class: PodClass) -> str:
    """`8 x huawei.com/Ascend910`; of a pod without chips `4 cpu, 8 GiB memory`."""
    if pod_class.chips:
        return f"{pod_class.chips} x {pod_class.resource}"
    if (part := pod_class.part) is not None:
        share = f"{part.count} percent and {part.mb} MB of a chip ({part.resource})"
        return share if part.mode == SOFT else f"{part.count} x {part.resource}"
    requests = [f"{amount_text(name, amount)} {name}" for name, amount in amounts_of(pod_class).items()]
    return ", ".join(requests) or "no resources"


def add(total: Amounts, more: Mapping[str, Amount], times: int = 1) -> None:
    """Add in place; entries that become zero are removed, so that equal totals are equal dictionaries."""
    for name, amount in more.items():
        value = total.get(name, 0) + amount * times
        if value:
            total[name] = value if type(value) is int else simplified(value)
        else:
            total.pop(name, None)


def added(before: Mapping[str, Amount], more: Mapping[str, Amount], times: int = 1) -> Mapping[str, Amount]:
    """Return the sum, never changed: thousands of jobs with one pod share what its class requests."""
    if not before and times == 1 and all(more.values()):
        return more
    total = dict(before)
    add(total, more, times)
    return total


def simplified(amount: Amount) -> Amount:
    """The same amount as an `int` if it is a whole number."""
    whole = int(amount)
    return whole if whole == amount else amount


def plain(amounts: Mapping[str, Amount]) -> dict[str, int | float]:
    """The amounts as numbers of JSON."""
    return {name: as_number(amount) for name, amount in amounts.items()}


def as_number(amount: Amount) -> int | float:
    """The amount as a number of JSON."""
    return amount if isinstance(amount, int) else float(amount)


def lacking(
    requests: Mapping[str, Amount], used: Mapping[str, Amount], limit: Mapping[str, Amount]
) -> tuple[str, ...]:
    """The resources for which used + requests exceed a limit; a resource without a limit is unlimited."""
    short: list[str] = []
    for name, amount in requests.items():
        if amount and name in limit and used.get(name, 0) + amount > limit[name]:
            short.append(name)
    return tuple(short)


def smaller(one: Mapping[str, Amount], other: Mapping[str, Amount]) -> Amounts:
    """The smaller of two limits; a resource that is in one of them only has that limit."""
    result = dict(one)
    for name, amount in other.items():
        result[name] = min(result.get(name, amount), amount)
    return result


def share(part: Mapping[str, Amount], whole: Mapping[str, Amount]) -> float:
    """The largest fraction over all resources; 1 for something of nothing, 0 for nothing of nothing."""
    largest = 0.0
    for name, amount in part.items():
        if amount:
            total = whole.get(name, 0)
            largest = max(largest, float(amount / total) if total else 1.0)
    return largest


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
