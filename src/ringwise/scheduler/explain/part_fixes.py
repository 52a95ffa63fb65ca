"""Fixes that change a request for a share of a chip or for a vNPU (part V)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ringwise.grammar import counted
from ringwise.scheduler.explain.fix_search import Fix, FixSearch, Suppose, first_fixes
from ringwise.scheduler.explain.what_if import JobChange
from ringwise.state.model import SOFT, STATIC, PartRequest
from ringwise.state.part_requests import SHARE_LABELS, quota
from ringwise.topology.policy import SOFT_SHARE_POLICY
from ringwise.topology.vnpu_templates import (
    FAMILY_OF_RING,
    LOW,
    SHARED_DVPP,
    kinds_of,
)
from ringwise.wellknown import (
    AICORE_QUOTA,
    HBM_QUOTA,
    RING_CONTROLLER,
    SCHEDULE_POLICY,
    SHARE_POLICIES,
    SHARE_POLICY,
    VNPU_DVPP,
    VNPU_LEVEL,
)

#: MB of a share whose label says nothing that can be read.
_SOME_MEMORY = 1024


def part_fixes(search: FixSearch) -> Iterator[Fix]:
    """Another request that the nodes take, as near to the present one as possible."""
    job = search.job
    parts = [pod.cls.part for pod in job.in_order if pod.cls.part is not None]
    if not parts or any(search.view.cluster.pods[uid].node >= 0 for uid in job.pods):
        return
    part = parts[0]
    if part.mode == SOFT:
        yield from _of_share(search, part)
        return
    if SCHEDULE_POLICY in job.annotations and job.annotations[SCHEDULE_POLICY] == SOFT_SHARE_POLICY:
        text = f"remove the annotation {SCHEDULE_POLICY}"
        yield from search.attempt("annotation", text, _with(search, annotations={SCHEDULE_POLICY: None}))
    if part.mode == STATIC:
        if part.count > 1:
            yield from search.attempt("size", "request 1 vNPU in each pod", _with(search, count=1))
        return
    yield from _of_vnpu(search, part)


def _with(
    search: FixSearch,
    labels: Mapping[str, str | None] | None = None,
    annotations: Mapping[str, str | None] | None = None,
    **part: object,
) -> Suppose:
    return search.changed(JobChange(labels=labels, annotations=annotations, part=part))


def _of_share(search: FixSearch, part: PartRequest) -> Iterator[Fix]:
    job = search.job
    first = next(pod for pod in job.in_order if pod.cls.part is not None)
    labels = {**(job.group.labels if job.group is not None else {}), **first.labels}
    percent, mb, policy = (labels.get(key) for key in SHARE_LABELS)
    wrong: dict[str, str] = {}
    if quota(percent) != part.count:
        wrong[AICORE_QUOTA] = str(part.count)
    if not quota(mb):
        wrong[HBM_QUOTA] = str(_SOME_MEMORY)
    if policy not in SHARE_POLICIES:
        wrong[SHARE_POLICY] = next(iter(SHARE_POLICIES))
    memory = int(wrong.get(HBM_QUOTA, mb or "0"))
    named = wrong.get(SHARE_POLICY, policy or "")
    if wrong or len({tuple(pod.labels.get(key) for key in SHARE_LABELS) for pod in job.in_order}) > 1:
        # All pods have the same labels then.
        every = wrong or {AICORE_QUOTA: str(part.count), HBM_QUOTA: str(memory), SHARE_POLICY: named}
        text = "set the labels " if len(every) > 1 else "set the label "
        text += ", ".join(f'{key}: "{value}"' for key, value in every.items())
        change = _with(search, labels=dict(every), count=part.count, mb=memory, policy=named)
        yield from search.attempt("label", text, change)
        return

    def with_percent(count: int) -> Suppose:
        return _with(search, labels={AICORE_QUOTA: str(count)}, count=count)

    def with_memory(size: int) -> Suppose:
        return _with(search, labels={HBM_QUOTA: str(size)}, mb=size)

    most = search.largest_below(part.count, with_percent)
    if most:
        text = f"request {most} instead of {part.count} percent (request and label {AICORE_QUOTA})"
        yield search.fix("size", text, with_percent(most))
    most = search.largest_below(part.mb, with_memory)
    if most:
        text = f'set the label {HBM_QUOTA} to "{most}"'
        yield search.fix("size", text, with_memory(most))
    yield from first_fixes(
        search.attempt(
            "label",
            f"set the label {SHARE_POLICY} to {other}",
            _with(search, labels={SHARE_POLICY: other}, policy=other),
        )
        for other in SHARE_POLICIES
        if other != part.policy
    )


def _of_vnpu(search: FixSearch, part: PartRequest) -> Iterator[Fix]:
    """One label or the number of cores; where that does not help, with the labels at their defaults."""
    yield from first_fixes(_other_rings(search, part))
    for key, name, value in _labels_of(part):
        fields: dict[str, object] = {name: value}
        change = JobChange(labels={key: value}, part=fields)
        yield from search.change("label", f'set the label {key} to "{value}"', change)
    family = FAMILY_OF_RING.get(part.ring)
    if family is None:
        return
    yield from first_fixes(
        search.attempt("size", f"request {count} instead of {part.count} cores", _with(search, count=count))
        for count in _counts(search, family, part.count)
    )


def _other_rings(search: FixSearch, part: PartRequest) -> Iterator[Iterator[Fix]]:
    """Chips of another family: with the same number of cores, else with one that they take."""
    for ring in dict(zip(FAMILY_OF_RING.values(), FAMILY_OF_RING, strict=True)).values():
        family = FAMILY_OF_RING[ring]
        if family != FAMILY_OF_RING.get(part.ring):
            text, labels = f"set the label {RING_CONTROLLER} to {ring}", {RING_CONTROLLER: ring}
            yield search.attempt("label", text, _with(search, labels, ring=ring))
            for count in _counts(search, family, part.count):
                more = f"{text} and request {counted(count, 'core')}"
                yield search.attempt("label", more, _with(search, labels, ring=ring, count=count))


def _counts(search: FixSearch, family: str, near: int) -> list[int]:
    """Return the other numbers of cores that chips of a family take, the nearest first."""
    present = (one.divided for one in search.view.cluster.modes.values())
    there = {id(kind): kind for kind in present if kind is not None and kind.family == family}
    kinds = list(there.values()) or kinds_of(family)
    counts = {count for kind in kinds for count in range(1, kind.cores + 1) if kind.takes_count(count)}
    return sorted(counts - {near}, key=lambda count: (abs(count - near), count))


def _labels_of(part: PartRequest) -> Iterator[tuple[str, str, str]]:
    if part.dvpp != SHARED_DVPP:
        yield VNPU_DVPP, "dvpp", SHARED_DVPP
    if part.level != LOW:
        yield VNPU_LEVEL, "level", LOW
