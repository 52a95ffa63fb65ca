"""Spans of time as arguments of commands."""

from __future__ import annotations

import click

from ringwise.grammar import quoted


def duration_argument(text: str) -> int:
    """`90`, `90s`, `1h30m`, `2d`, in nanoseconds."""
    from ringwise.apps.lab.requests import MAX_TIME
    from ringwise.embed.kubelet import NotSimulatableError, seconds_or_duration

    try:
        result = seconds_or_duration(text)
    except NotSimulatableError:
        result = MAX_TIME
    if result >= MAX_TIME:
        raise click.BadParameter(
            f"invalid duration {quoted(text)}: expected a time such as 90s, 30m, 1h30m or 2d, below 100 years"
        )
    return result
