"""Quantities, times and durations, exact to the last unit."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.durations import plain_duration
from ringwise.manifests.text.quantities import (
    NotReadableError,
    duration,
    nanoseconds,
    quantity,
    whole_quantity,
)


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("100m", 100),
        ("0.5", 500),
        (2, 2000),
        (0.25, 250),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("5E-1", 500),
        ("1k", 1_000_000),
        ("1Ki", 1_024_000),
        ("1.5Gi", 1_610_612_736_000),
        ("2E", 2 * 10**21),
        ("1n", 1),
        ("1500u", 2),
        ("+3", 3000),
        (".5", 500),
        ("3.", 3000),
        ("-0", 0),
    ],
)
def test_quantities_are_read_exactly_and_rounded_up(text: str | float, milli: int) -> None:
    assert quantity(text, 1000) == milli


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "-1",
        "1 Gi",
        "1gi",
        "e3",
        "1e",
        "1e1000",
        "9" * 30,
        "1" * 100,
        "0x10",
        "NaN",
        "٣",
        "1Ei1",
        "--1",
    ],
)
def test_invalid_quantities_are_rejected(text: str) -> None:
    with pytest.raises(NotReadableError):
        quantity(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_numbers_that_are_too_large_are_rejected(value: float) -> None:
    with pytest.raises(NotReadableError):
        quantity(value)


@given(st.integers(0, 10**12), st.integers(0, 6))
def test_whole_and_fractional_quantities_agree(number: int, places: int) -> None:
    text = f"{number // 10**places}.{number % 10**places:0{places}d}" if places else str(number)
    exact = Fraction(number, 10**places)
    assert quantity(text) == -(-exact.numerator // exact.denominator)
    if exact.denominator == 1:
        assert whole_quantity(text) == exact
    else:
        with pytest.raises(NotReadableError):
            whole_quantity(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-02T00:00:01Z", 86_401 * 10**9),
        ("2025-01-31T08:00:00.123456789Z", 1738310400_123456789),
        ("2025-01-31T10:00:00+02:00", 1738310400 * 10**9),
        ("0001-01-01T00:00:00Z", 0),
    ],
)
def test_times_are_nanoseconds(text: str, expected: int) -> None:
    assert nanoseconds(text) == expected


@pytest.mark.parametrize(
    "text", ["", "2025-01-31", "2025-13-01T00:00:00Z", "2025-01-31T08:00:00", "9999-12-31T23:59:59-25:00"]
)
def test_invalid_times_are_rejected(text: str) -> None:
    with pytest.raises(NotReadableError):
        nanoseconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90 * 10**9),
        ("1h30m", 5400 * 10**9),
        ("1.5s", 1_500_000_000),
        ("2ms", 2_000_000),
        ("0", 0),
        ("9223372036854775807ns", 2**63 - 1),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5h", 5400), ("2d", 172_800), ("1h30m", 5400), ("0", None), ("0s", None)]
    + [(text, None) for text in ("", "h", "1x", "-5m", "1h 30m", "nan", "inf", "9000000h", "9" * 400)],
)
def test_durations_that_people_write(text: str, seconds: int | None) -> None:
    assert plain_duration(text) == (None if seconds is None else seconds * 10**9)


@pytest.mark.parametrize("text", ["", "s", "5", "-1s", "1h 30m", "1y", "5m!", "9" * 80 + "s", "9" * 60 + "h"])
def test_invalid_durations_are_rejected(text: str) -> None:
    with pytest.raises(NotReadableError):
        duration(text)
