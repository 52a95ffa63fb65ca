"""The `workload:` part of a drill file: jobs, faults, and what is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ringwise.apps.drill.file import MAX_TIME, read_document
from ringwise.apps.simulate.comparison import ONE_BOARD, Cluster, Plan, Variant, names_several_boards
from ringwise.apps.simulate.hardware import FaultRates, Hardware
from ringwise.apps.simulate.jobs import SIZES, JobMix
from ringwise.apps.simulate.policies import POLICIES
from ringwise.apps.simulate.traces import FORMATS, TraceError, read_trace
from ringwise.durations import duration_text, go_duration, plain_duration
from ringwise.framework.arguments import InvalidArgument, printed
from ringwise.framework.configuration import Configuration, with_settings
from ringwise.grammar import quoted
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.checking import checked, one_of
from ringwise.manifests.text.errors import DocumentError, Findings, ManifestError

MAX_VARIANTS = 20
#: The name of the configuration that all others are compared with.
BASE_VARIANT = "given"


class LongSpan(int):
    """Nanoseconds, written as 90s, 12h or 30d."""


class ClusterBoard(str):
    """One of the shipped boards."""


class FormatName(str):
    """One of the formats of traces."""


class PolicyName(str):
    """One of the policies of the simulator."""


Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Load = Annotated[float, Meta(gt=0, le=10)]
Share = Annotated[float, Meta(gt=0, le=1_000_000_000)]


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class ClusterPart(_Part, frozen=True):
    nodes: Count | None = None
    board: ClusterBoard = ClusterBoard("910-x8")
    leaf_size: Count | None = None
    superpod_size: Count | None = msgspec.field(default=None, name="superPodSize")


class TracePart(_Part, frozen=True):
    #: Relative to the drill file.
    file: str
    format: FormatName | None = None
    columns: dict[str, str] = {}
    #: Only rows with these values.
    only: dict[str, str] = {}


class MixPart(_Part, frozen=True):
    jobs: Count = JobMix().jobs
    #: Shares of jobs by their chips.
    sizes: dict[int, Share] = {}
    median: LongSpan = LongSpan(JobMix().median)
    p90: LongSpan = LongSpan(JobMix().p90)


class RatePart(_Part, frozen=True):
    #: Mean time between two failures of a piece, and to its repair.
    mtbf: LongSpan
    mttr: LongSpan


class FaultsPart(_Part, frozen=True):
    chip: RatePart | None = None
    node: RatePart | None = None
    switch: RatePart | None = None


class ComparePart(_Part, frozen=True):
    name: str | None = None
    settings: dict[str, str | int | bool] = {}
    policy: PolicyName | None = None


class WorkloadPart(_Part, frozen=True):
    trace: TracePart | None = None
    mix: MixPart | None = None
    load: Load = 0.85
    seed: int | str = 0
    #: Only the first so many.
    jobs: Count | None = None
    tor_affinity: Literal["normal-schema", "large-model-schema"] | None = None
    #: Jobs say how long they run.
    known_durations: bool = False
    faults: FaultsPart = FaultsPart()
    compare: Annotated[list[ComparePart], Meta(max_length=MAX_VARIANTS)] = []


class _File(_Part, frozen=True):
    drill: str
    workload: WorkloadPart
    cluster: ClusterPart = ClusterPart()
    settings: dict[str, str | int | bool] = {}
    #: Those of `ringwise drill`.
    steps: Any = None


def _span(text: str) -> int | None:
    span = go_duration(text) or plain_duration(text)
    return span if span is not None and span <= MAX_TIME else None


def _long_span(value: object) -> LongSpan:
    if isinstance(value, (str, int)) and not isinstance(value, bool) and (span := _span(str(value))):
        return LongSpan(span)
    raise ValueError("must be a duration such as 90s, 12h or 30d")


def _board(value: object) -> ClusterBoard:
    if isinstance(value, str) and names_several_boards(value):
        raise ValueError(ONE_BOARD)
    return ClusterBoard(one_of(value, [board.name for board in shipped_catalog()]))


_READERS: dict[type, Callable[[object], object]] = {
    LongSpan: _long_span,
    ClusterBoard: _board,
    FormatName: lambda value: FormatName(one_of(value, tuple(FORMATS))),
    PolicyName: lambda value: PolicyName(one_of(value, POLICIES)),
}


def _value(kind: type, value: object) -> object:
    return _READERS[kind](value)


def read_plan(path: Path, configuration: Configuration, seed: str | None = None) -> Plan:
    """The configuration is the one that the settings of the file change. Raises DocumentError."""
    value, issues = read_document(path)
    file = checked(value, _File, "", issues, _value)
    if file is None:
        raise DocumentError(issues.errors)
    work = file.workload
    if (work.trace is None) == (work.mix is None):
        issues.add_error("workload", "must have either a trace or a mix")
    base = _changed(configuration, file.settings, "settings", issues)
    variants = [Variant(BASE_VARIANT, base)]
    for place, one in enumerate(work.compare):
        variants += _variant(base, one, f"workload.compare[{place}]", issues)
    plan = Plan(
        file.drill,
        Cluster(file.cluster.board, file.cluster.nodes, file.cluster.leaf_size, file.cluster.superpod_size),
        named_apart(variants),
        load=work.load,
        seed=str(work.seed) if seed is None else seed,
        tor_affinity=work.tor_affinity,
        known_durations=work.known_durations,
        rates=_rates(work.faults),
    )
    if work.mix is not None:
        mix = work.mix
        count = mix.jobs if work.jobs is None else min(mix.jobs, work.jobs)
        if any(size < 1 for size in mix.sizes):
            issues.add_error("workload.mix.sizes", "must list numbers of chips, each at least 1")
        if mix.p90 < mix.median:
            issues.add_error("workload.mix.p90", f"must be at least the median, {duration_text(mix.median)}")
        plan = replace(plan, mix=JobMix(count, mix.sizes or SIZES, mix.median, mix.p90))
    elif work.trace is not None:
        plan = _with_trace(plan, path.parent, work.trace, work.jobs, issues)
    issues.raise_errors()
    return plan


def _with_trace(plan: Plan, folder: Path, part: TracePart, most: int | None, issues: Findings) -> Plan:
    try:
        trace = read_trace(folder / part.file, part.format, part.columns, part.only)
    except TraceError as error:
        issues.errors.append(ManifestError(str(error), "", ""))
        return plan
    return replace(plan, trace=tuple(trace.jobs[:most]), omitted=dict(trace.omitted))


def _rates(part: FaultsPart) -> dict[Hardware, FaultRates]:
    rates = {Hardware.CHIP: part.chip, Hardware.NODE: part.node, Hardware.SWITCH: part.switch}
    return {kind: FaultRates(rate.mtbf, rate.mttr) for kind, rate in rates.items() if rate is not None}


def rate_from_text(text: str) -> tuple[Hardware, FaultRates]:
    """`node=300d/6h`. Raises ValueError with one line."""
    name, _, times = text.partition("=")
    spans = [_span(time) for time in times.split("/")]
    between, repair = spans if len(spans) == 2 else (None, None)
    kinds = {kind.value: kind for kind in Hardware}
    if name not in kinds or not between or not repair:
        raise ValueError(
            f"invalid value {quoted(text)}: expected one such as node=300d/6h, with {', '.join(kinds)}"
        )
    return kinds[name], FaultRates(between, repair)


def _variant(base: Configuration, part: ComparePart, place: str, issues: Findings) -> list[Variant]:
    if part.policy is None and not part.settings:
        issues.add_error(place, "must have settings or a policy")
        return []
    configuration = _changed(base, part.settings, f"{place}.settings", issues)
    texts = {name: printed(value) for name, value in part.settings.items()}
    return [Variant(part.name or _name(part.policy, texts), configuration, part.policy, texts)]


def _name(policy: str | None, settings: Mapping[str, str]) -> str:
    return ", ".join(
        [*([policy] if policy else []), *(f"{name}={value}" for name, value in settings.items())]
    )


def _changed(
    configuration: Configuration, settings: Mapping[str, str | int | bool], place: str, issues: Findings
) -> Configuration:
    try:
        texts = {name: printed(value) for name, value in settings.items()}
        return replace(configuration, settings=with_settings(configuration.settings, texts))
    except InvalidArgument as error:
        issues.add_error(place, str(error))
        return configuration


def variant_from_text(base: Configuration, text: str) -> Variant:
    """`first-fit`, or `ring-packing=tight-node,queue-discipline=strict`. Raises ValueError with one line."""
    if text in POLICIES:
        return Variant(text, base, text)
    settings: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals:
            policies = ", ".join(POLICIES)
            raise ValueError(
                f"{quoted(text)} is neither a policy ({policies}) nor settings like NAME=VALUE,NAME=VALUE"
            )
        settings[name.strip()] = value.strip()
    changed = with_settings(base.settings, settings)
    return Variant(_name(None, settings), replace(base, settings=changed), None, settings)


def named_apart(variants: list[Variant]) -> tuple[Variant, ...]:
    """No two have the same name."""
    names: dict[str, int] = {}
    result = []
    for one in variants:
        names[one.name] = names.get(one.name, 0) + 1
        result.append(one if names[one.name] == 1 else replace(one, name=f"{one.name} ({names[one.name]})"))
    return tuple(result)
