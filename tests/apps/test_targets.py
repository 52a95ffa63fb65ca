"""Times as operators write them, for drains and reservations alike."""

from __future__ import annotations

import pytest

from ringwise.apps.targets import moment
from ringwise.durations import time_text, unix_nanoseconds

NOW = unix_nanoseconds("2026-01-31T08:00:00Z") or 0


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31T09:00:00+01:00", None),
        ("2026-01-31T10:00:00Z", "2026-01-31T10:00:00Z"),
        ("2h", "2026-01-31T10:00:00Z"),
        ("+2h", "2026-01-31T10:00:00Z"),
        ("tomorrow", "2026-02-01T00:00:00Z"),
        ("2026-02-02", "2026-02-02T00:00:00Z"),
        ("2026-01-31", None),
        ("2026-02-02T10:00", "2026-02-02T10:00:00Z"),
        ("+1h30m", "2026-01-31T09:30:00Z"),
        ("+7d", "2026-02-07T08:00:00Z"),
        ("1.5d", "2026-02-01T20:00:00Z"),
        *((text, None) for text in ("", "+", "++2h", "-2h", "+90", "90", "0", "2x", "d", "nand", "infd")),
        ("+2026-01-31T10:00:00Z", None),
    ],
)
def test_a_time_or_a_span_from_now(text: str, time: str | None) -> None:
    if time is None:
        with pytest.raises(ValueError, match=r"invalid time|is in the past"):
            moment(text, NOW)
    else:
        assert time_text(moment(text, NOW)) == time
