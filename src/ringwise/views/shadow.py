"""The report of shadow mode, from the lines that the scheduler logged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, cast, get_args

from ringwise.views.documents.shadow import (
    Outcome,
    ShadowDifferenceFields,
    ShadowReportDocument,
    ShadowWaitFields,
)

#: Seconds; a shorter difference of waiting times is not a difference.
_NOTABLE = 1.0


def shadow_report(lines: Iterable[str]) -> ShadowReportDocument:
    """Return the report of all lines that compare a pod; other lines of the log are passed over."""
    times: list[str] = []
    outcomes: Counter[Outcome] = Counter(dict.fromkeys(get_args(Outcome), 0))
    reasons: Counter[tuple[Outcome, str]] = Counter()
    examples: dict[tuple[Outcome, str], str] = {}
    waits: list[tuple[float, float]] = []
    split: dict[Literal["ours", "theirs"], int] = {"ours": 0, "theirs": 0}
    unreadable = 0
    for line in lines:
        if '"placed"' not in line:
            continue
        try:
            record = json.loads(line)
            if record.get("event") != "placed":
                continue
            value, time, pod, why = (str(record.get(key, "")) for key in ("outcome", "time", "pod", "why"))
            if value not in outcomes:
                raise ValueError(value)
            sides = {side: record.get(side) or {} for side in split}
            waited = record.get("waited") or {}
            both: list[Any] = [waited.get(side) for side in split]
            splits = {side: bool(sides[side].get("splits_node")) for side in split}
            wait = (float(both[0]), float(both[1])) if None not in both else None
        except (ValueError, TypeError, AttributeError, RecursionError):
            unreadable += 1
            continue
        outcome = cast("Outcome", value)
        times.append(time)
        outcomes[outcome] += 1
        if wait is not None:
            waits.append(wait)
        for side, splitting in splits.items():
            split[side] += splitting
        if outcome != "same":
            reasons[outcome, why] += 1
            examples.setdefault((outcome, why), pod)
    return ShadowReportDocument(
        since=min(times, default=""),
        until=max(times, default=""),
        pods=len(times),
        outcomes=dict(outcomes),
        blocked_jobs=ShadowWaitFields(
            pods=len(waits),
            shorter=sum(theirs - ours >= _NOTABLE for ours, theirs in waits),
            longer=sum(ours - theirs >= _NOTABLE for ours, theirs in waits),
            ours_seconds=round(sum(ours for ours, _ in waits), 1),
            theirs_seconds=round(sum(theirs for _, theirs in waits), 1),
        ),
        split_nodes=split,
        differences=[
            ShadowDifferenceFields(state=outcome, message=why, pods=count, example=examples[outcome, why])
            for (outcome, why), count in sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0]))
        ],
        unreadable=unreadable,
    )
