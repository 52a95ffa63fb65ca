"""Drill files: a cluster, and steps with expectations. Every error says where it is and what is allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ringwise.apps.lab.faults import KINDS as FAULT_KINDS
from ringwise.apps.lab.faults import REPORT_KINDS
from ringwise.embed.kubelet import NotSimulatableError, seconds_or_duration
from ringwise.manifests.text.checking import checked, one_of
from ringwise.manifests.text.errors import Findings, document_error
from ringwise.manifests.text.sources import read_file
from ringwise.manifests.text.yaml_stream import MAX_BYTES, read_map
from ringwise.records import dataclass
from ringwise.state.ranges import MAX_NODE_CHIPS
from ringwise.wellknown import ASCEND910

MAX_STEPS = 1000
MAX_NODES = 10_000
#: Ten years in nanoseconds.
MAX_TIME = 10 * 366 * 86400 * 1_000_000_000


# -- values that are written in several ways -------------------------------------------------------------


class Span(int):
    """Nanoseconds, and how they were written: 90s."""

    text: str


class Ranks(tuple[int, ...]):
    """`all`, one rank, or a list of ranks."""


class Names(tuple[str, ...]):
    """One text or several."""


class FaultKind(str):
    """What can fail in a lab."""


class ReportKind(str):
    """Which report of a node."""


class RestartedPart(str):
    """What is started again."""


#: `all` in a list of ranks.
ALL = Ranks()


def _span(value: object) -> Span:
    wrong = ValueError("must be a duration such as 90s, 5m or 1h30m")
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise wrong
    try:
        duration = seconds_or_duration(str(value))
    except NotSimulatableError:
        raise wrong from None
    if duration > MAX_TIME:
        raise ValueError("must be at most ten years")
    span = Span(duration)
    span.text = str(value)
    return span


def _ranks(value: object) -> Ranks:
    if value == "all":
        return ALL
    entries = value if isinstance(value, list) else [value]
    good = [one for one in entries if isinstance(one, int) and not isinstance(one, bool) and one >= 0]
    if len(good) != len(entries) or not entries:
        raise ValueError("must be all, a rank or a list of ranks")
    return Ranks(good)


def _names(value: object) -> Names:
    entries = value if isinstance(value, list) else [value]
    texts = [one for one in entries if isinstance(one, str)]
    if len(texts) < len(entries):
        raise ValueError("must be a string or a list of strings")
    return Names(texts)


_READERS: dict[type, Callable[[object], object]] = {
    Span: _span,
    Ranks: _ranks,
    Names: _names,
    FaultKind: lambda value: FaultKind(one_of(value, FAULT_KINDS)),
    ReportKind: lambda value: ReportKind(one_of(value, REPORT_KINDS)),
    RestartedPart: lambda value: RestartedPart(one_of(value, ("scheduler", "controller"))),
}


def _value(kind: type, value: object) -> object:
    return _READERS[kind](value)


# -- what is written in a file ---------------------------------------------------------------------------

Number = Annotated[int, Meta(ge=0, le=1_000_000)]
Nodes = Annotated[int, Meta(ge=1, le=MAX_NODES)]
Chips = Annotated[int, Meta(ge=0, le=MAX_NODE_CHIPS)]
Texts = dict[str, str | None]


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class DrillCluster(_Part, frozen=True):
    nodes: Nodes = 4
    board: str = "910-x8"
    leaf_size: Nodes | None = None
    superpod_size: Nodes | None = msgspec.field(default=None, name="superPodSize")
    #: Nodes with soft shares, and with dynamic vNPUs, besides.
    soft: Number = 0
    dynamic: Number = 0
    #: How device plugins bring chips into containers; None: no plugins run.
    device_plugin: Literal["plain", "ascend-docker", "cdi"] | None = None


class PodOf(_Part, frozen=True):
    """The hardware of the pod with this rank of a job."""

    job: str
    rank: Number

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.job}"


#: A name, or the node of a pod.
DrillTarget = str | int | PodOf


class NewJob(_Part, frozen=True):
    """A job of equal pods, described in the drill itself."""

    name: str = msgspec.field(name="job")
    pods: Nodes = 1
    chips: Chips = 8
    min_available: Nodes | None = None
    resource: str = ASCEND910
    labels: Texts = {}
    annotations: Texts = {}
    pod_labels: Texts = {}
    duration: Span | None = None
    #: As `ringwise.io/simulate` writes it.
    simulate: str | None = None
    queue: str | None = None


class Clear(_Part, frozen=True):
    kind: FaultKind
    target: DrillTarget
    #: None: the first chip of the pod that is the target, of other targets all chips.
    chips: Ranks | None = None
    code: str | None = None


class Inject(Clear, frozen=True):
    level: str | None = None
    status: str | None = None


class Report(_Part, frozen=True):
    """A report of a node as it was written, readable or not."""

    target: DrillTarget
    data: Any
    kind: ReportKind = ReportKind(REPORT_KINDS[0])
    #: Words of the error that it is refused with; None: nothing is expected.
    refused: str | None = None

    @property
    def text(self) -> str:
        """The value of its ConfigMap."""
        return self.data if isinstance(self.data, str) else json.dumps(self.data)


class Delete(_Part, frozen=True):
    job: str | None = None
    pod: str | None = None
    node: str | None = None

    @property
    def named(self) -> tuple[str, str]:
        """Kind and name."""
        return next(
            (kind, name) for kind in self.__struct_fields__ if (name := getattr(self, kind)) is not None
        )


class Expect(_Part, frozen=True):
    job: str
    phase: str | None = None
    placed: Number | None = None
    running: Number | None = None
    #: Ranks whose pods are the same as before the last fault; None: not asked, empty: all of them.
    untouched: Ranks | None = None
    #: Ranks with a new pod on the node of the old one, and on another node.
    returned: Ranks | None = None
    moved: Ranks | None = None
    nodes: dict[int, str] = {}
    avoids: Names = Names()
    #: Code of the reason why it waits.
    reason: str | None = None
    #: Words that its history contains since the last fault.
    history: Names = Names()
    #: It holds after so long at the latest; it holds all that time.
    within: Span | None = None
    throughout: Span | None = msgspec.field(default=None, name="for")


class _Step(_Part, frozen=True):
    submit: str | NewJob | None = None
    advance: Span | None = None
    fault: Inject | None = None
    clear: Literal["all"] | Clear | None = None
    report: Report | None = None
    restart: RestartedPart | None = None
    cordon: DrillTarget | None = None
    uncordon: DrillTarget | None = None
    drain: DrillTarget | None = None
    delete: Delete | None = None
    expect: Expect | None = None
    #: For `ringwise demo`: a heading, and commands whose output is shown. They change nothing.
    explain: str | None = None
    show: Names | None = None


class _File(_Part, frozen=True):
    drill: str
    steps: Annotated[list[Any], Meta(max_length=MAX_STEPS)]
    cluster: DrillCluster = DrillCluster()
    settings: dict[str, Any] = {}
    #: For `ringwise simulate`.
    workload: Any = None


@dataclass(frozen=True, slots=True)
class DrillStep:
    #: Its key in the file.
    action: str
    what: str | int | NewJob | Clear | Report | Delete | Expect | PodOf | Names


@dataclass(frozen=True, slots=True)
class Drill:
    path: Path
    title: str
    cluster: DrillCluster
    settings: Mapping[str, Any]
    steps: tuple[DrillStep, ...]


def read_drill(path: Path) -> Drill:
    """Raises DocumentError."""
    value, issues = read_document(path)
    top = checked(value, _File, "", issues, _value)
    written = value.get("steps")
    steps: list[DrillStep | None] = []
    if isinstance(written, list) and len(written) <= MAX_STEPS:
        steps = [_step(one, f"steps[{at}]", issues) for at, one in enumerate(written)]
    issues.raise_errors()
    assert top is not None
    return Drill(path, top.drill, top.cluster, top.settings, tuple(step for step in steps if step))


def read_document(path: Path) -> tuple[dict[str, Any], Findings]:
    """The only document of a file, and where its errors are collected. Raises DocumentError."""
    document = read_map(read_file(path, MAX_BYTES), str(path))
    if document is None:
        raise document_error(str(path), "is empty; must have one document")
    return document.value, Findings(str(path), document.line_of)


def _step(value: object, place: str, issues: Findings) -> DrillStep | None:
    step = checked(value, _Step, place, issues, _value)
    if not isinstance(value, dict):
        return None
    for name, problem in _CONTRADICTIONS.items():
        if isinstance(inner := value.get(name), dict) and (text := problem(inner)):
            issues.add_error(f"{place}.{name}", text)
    if step is None:
        return None
    actions = _Step.__struct_fields__
    steps = [DrillStep(name, what) for name in actions if (what := getattr(step, name)) is not None]
    if len(steps) != 1:
        issues.add_error(place, f"must be exactly one of {', '.join(actions)}, got {len(steps)}")
        return None
    return steps[0]


def _contradicts_delete(fields: Mapping[str, Any]) -> str:
    return (
        ""
        if len([one for one in fields.values() if one is not None]) == 1
        else "must name one job, pod or node"
    )


def _contradicts_expect(values: Mapping[str, Any]) -> str:
    if not set(values) - {"job", "within", "for"}:
        fields = [name for name in Expect.__struct_encode_fields__ if name not in ("job", "within", "for")]
        return f"expects nothing: give one of {', '.join(fields)}"
    both = values.get("within") is not None and values.get("for") is not None
    return "within and for cannot be combined" if both else ""


_CONTRADICTIONS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "delete": _contradicts_delete,
    "expect": _contradicts_expect,
}
