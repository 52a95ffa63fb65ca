"""Drill files: a cluster, and steps with expectations. Every error says where it is and what is allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from ringwise.apps.lab.faults import KINDS as FAULT_KINDS
from ringwise.apps.lab.faults import REPORT_KINDS
from ringwise.embed.kubelet import NotSimulatableError, seconds_or_duration
from ringwise.manifests.errors import Findings, ManifestError, shown
from ringwise.manifests.yaml_stream import YamlStream
from ringwise.records import dataclass
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import ASCEND910

#: A drill is a page or two of text.
MOST_BYTES = 1 << 20
MOST_STEPS = 1000
MOST_NODES = 10_000
#: Ten years in nanoseconds.
MOST_TIME = 10 * 366 * 86400 * 1_000_000_000


class DrillFileError(Exception):
    """A file that is no drill; one line for each problem."""

    def __init__(self, errors: Iterable[ManifestError]) -> None:
        self.errors = list(errors)
        super().__init__("\n".join(map(str, self.errors)))


@dataclass(frozen=True, slots=True)
class DrillCluster:
    nodes: int = 4
    board: str = "910-x8"
    leaf_size: int | None = None
    superpod_size: int | None = None


@dataclass(frozen=True, slots=True)
class PodOf:
    """The hardware of the pod with this rank of a job."""

    job: str
    rank: int

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.job}"


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job of equal pods, described in the drill itself."""

    name: str
    pods: int = 1
    chips: int = 8
    min_available: int | None = None
    resource: str = ASCEND910
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    pod_labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    duration: str | None = None
    #: As `ringwise.io/simulate` writes it.
    simulate: str | None = None
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class Submit:
    #: Relative to the drill; or the job itself.
    file: Path | None
    job: NewJob | None = None


@dataclass(frozen=True, slots=True)
class Advance:
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Fault:
    """`inject` or `clear`; a clear without a kind clears all faults."""

    action: str
    kind: str | None = None
    target: str | PodOf = ""
    #: None: the first chip of the pod that is the target, of other targets all chips.
    chips: tuple[int, ...] | None = None
    level: str | None = None
    code: str | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A report of a node as somebody wrote it, readable or not."""

    target: str | PodOf
    kind: str
    #: The value of its ConfigMap.
    text: str
    #: Words of the error that it is refused with; None: nothing is expected.
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Restart:
    #: scheduler or controller.
    component: str


@dataclass(frozen=True, slots=True)
class NodeAction:
    """cordon, uncordon or drain."""

    action: str
    target: str | PodOf


@dataclass(frozen=True, slots=True)
class Delete:
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Expect:
    job: str
    phase: str | None = None
    placed: int | None = None
    running: int | None = None
    #: Ranks whose pods are the same as before the last fault; None: not asked, empty: all of them.
    untouched: tuple[int, ...] | None = None
    #: Ranks with a new pod on the node of the old one, and on another node.
    returned: tuple[int, ...] | None = None
    moved: tuple[int, ...] | None = None
    nodes: Mapping[int, str] = field(default_factory=dict, hash=False)
    avoids: tuple[str, ...] = ()
    #: Code of the reason why it waits.
    reason: str | None = None
    #: Words that its story contains since the last fault.
    story: tuple[str, ...] = ()
    #: Nanoseconds: it holds after so long at the latest; it holds all that time.
    within: int | None = None
    throughout: int | None = None


Step = Submit | Advance | Fault | Report | Restart | NodeAction | Delete | Expect

#: `all` in a list of ranks.
ALL: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Drill:
    path: Path
    title: str
    cluster: DrillCluster
    settings: Mapping[str, Any]
    steps: tuple[Step, ...]


# -- reading ---------------------------------------------------------------------------------------------


def read_drill(path: Path) -> Drill:
    """Raises DrillFileError."""
    found = Findings(str(path))
    value = _document(path, found)
    reader = _Reader(found)
    top = reader.mapping(value, "", ("drill", "cluster", "settings", "steps"), required=("drill", "steps"))
    title = reader.text(top, "", "drill") or ""
    cluster = _cluster(reader, top.get("cluster"))
    settings = reader.mapping(top.get("settings", {}), "settings", None)
    steps = [_step(reader, one, f"steps[{at}]") for at, one in enumerate(reader.items(top, "", "steps"))]
    if found.errors:
        raise DrillFileError(found.errors)
    return Drill(path, title, cluster, settings, tuple(step for step in steps if step is not None))


def _document(path: Path, found: Findings) -> object:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        raise DrillFileError([ManifestError(str(path), "", f"cannot be read: {why}")]) from None
    if len(data) > MOST_BYTES:
        raise DrillFileError([ManifestError(str(path), "", f"is larger than {MOST_BYTES >> 20} MiB")])
    try:
        documents = [one.value for one in YamlStream(str(path), data).values()]
    except ManifestError as error:
        raise DrillFileError([error]) from None
    except RecursionError:
        raise DrillFileError([ManifestError(str(path), "", "is nested too deep")]) from None
    if len(documents) != 1:
        found.wrong("", f"must hold one document, got {len(documents)}")
        raise DrillFileError(found.errors)
    return documents[0]


class _Reader:
    """Takes values of known types out of plain ones; what does not fit is reported and replaced."""

    def __init__(self, found: Findings) -> None:
        self.found = found

    def mapping(
        self,
        value: object,
        place: str,
        allowed: tuple[str, ...] | None,
        required: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """`allowed` None: any key."""
        if not isinstance(value, dict):
            self.found.wrong(place, f"must be an object, got {shown(value)}")
            return {}
        for key in value:
            if allowed is not None and key not in allowed:
                near = did_you_mean(str(key), allowed)
                self.found.wrong(_at(place, str(key)), f"is unknown{near}; allowed are {', '.join(allowed)}")
        for key in required:
            if value.get(key) is None:
                self.found.wrong(_at(place, key), "is missing")
        return value

    def items(self, mapping: Mapping[str, Any], place: str, key: str) -> list[Any]:
        value = mapping.get(key, [])
        if not isinstance(value, list):
            self.found.wrong(_at(place, key), f"must be a list, got {shown(value)}")
            return []
        if len(value) > MOST_STEPS:
            self.found.wrong(_at(place, key), f"has more than {MOST_STEPS} entries")
            return []
        return value

    def text(self, mapping: Mapping[str, Any], place: str, key: str) -> str | None:
        value = mapping.get(key)
        if value is None or isinstance(value, str):
            return value
        quotes = "; put it in quotes" if isinstance(value, (bool, int, float)) else ""
        self.found.wrong(_at(place, key), f"must be text, got {shown(value)}{quotes}")
        return None

    def texts(self, mapping: Mapping[str, Any], place: str, key: str) -> dict[str, str]:
        value = mapping.get(key)
        if value is None:
            return {}
        inner = self.mapping(value, _at(place, key), None)
        return {str(one): self.text(inner, _at(place, key), one) or "" for one in inner}

    def word(self, mapping: Mapping[str, Any], place: str, key: str, allowed: tuple[str, ...]) -> str | None:
        value = self.text(mapping, place, key)
        if value is not None and value not in allowed:
            near = did_you_mean(value, allowed)
            self.found.wrong(
                _at(place, key), f"must be one of {', '.join(allowed)}, got {shown(value)}{near}"
            )
            return None
        return value

    def number(
        self, mapping: Mapping[str, Any], place: str, key: str, least: int = 0, most: int = 1_000_000
    ) -> int | None:
        value = mapping.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.found.wrong(
                _at(place, key), f"must be a whole number from {least} to {most}, got {shown(value)}"
            )
            return None
        return value

    def time(self, mapping: Mapping[str, Any], place: str, key: str) -> int | None:
        value = mapping.get(key)
        return None if value is None else self.span(value, _at(place, key))

    def span(self, value: object, place: str) -> int | None:
        wrong = f"must be a span of time like 90s, 5m or 1h30m, got {shown(value)}"
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            self.found.wrong(place, wrong)
            return None
        try:
            found = seconds_or_duration(str(value))
        except NotSimulatableError:
            self.found.wrong(place, wrong)
            return None
        if found > MOST_TIME:
            self.found.wrong(place, "must be at most ten years")
            return None
        return found

    def ranks(self, mapping: Mapping[str, Any], place: str, key: str) -> tuple[int, ...] | None:
        """`all`, one rank, or a list of ranks."""
        value = mapping.get(key)
        if value is None:
            return None
        if value == "all":
            return ALL
        given = value if isinstance(value, list) else [value]
        good = [one for one in given if isinstance(one, int) and not isinstance(one, bool) and one >= 0]
        if len(good) != len(given) or not given:
            self.found.wrong(_at(place, key), f"must be all, a rank or a list of ranks, got {shown(value)}")
        return tuple(good)

    def names(self, mapping: Mapping[str, Any], place: str, key: str) -> tuple[str, ...]:
        value = mapping.get(key)
        given = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(one, str) for one in given):
            self.found.wrong(_at(place, key), f"must be text or a list of texts, got {shown(value)}")
            return ()
        return tuple(given)

    def target(self, mapping: Mapping[str, Any], place: str, key: str = "target") -> str | PodOf:
        """A name, or the node of a pod."""
        value = mapping.get(key)
        if isinstance(value, dict):
            inner = self.mapping(value, _at(place, key), ("job", "rank"), required=("job", "rank"))
            at = _at(place, key)
            return PodOf(self.text(inner, at, "job") or "", self.number(inner, at, "rank") or 0)
        if value is None:
            self.found.wrong(_at(place, key), "is missing")
            return ""
        return str(value) if isinstance(value, int) else self.text(mapping, place, key) or ""


def _at(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _cluster(reader: _Reader, value: object) -> DrillCluster:
    if value is None:
        return DrillCluster()
    place = "cluster"
    given = reader.mapping(value, place, ("nodes", "board", "leafSize", "superPodSize"))
    nodes = reader.number(given, place, "nodes", 1, MOST_NODES)
    return DrillCluster(
        DrillCluster().nodes if nodes is None else nodes,
        reader.text(given, place, "board") or DrillCluster().board,
        reader.number(given, place, "leafSize", 1, MOST_NODES),
        reader.number(given, place, "superPodSize", 1, MOST_NODES),
    )


# -- steps -----------------------------------------------------------------------------------------------


def _step(reader: _Reader, value: object, place: str) -> Step | None:
    given = reader.mapping(value, place, tuple(_STEPS))
    known = [key for key in given if key in _STEPS]
    if len(known) != 1:
        if isinstance(value, dict) and len(known) == len(given):
            reader.found.wrong(place, f"must be one step, one of {', '.join(_STEPS)}, got {len(known)}")
        return None
    return _STEPS[known[0]](reader, given[known[0]], f"{place}.{known[0]}")


def _submit(reader: _Reader, value: object, place: str) -> Step | None:
    if isinstance(value, str):
        return Submit(Path(value))
    allowed = (
        "job", "pods", "chips", "minAvailable", "resource", "labels", "annotations", "podLabels", "duration",
        "simulate", "queue"
    )  # fmt: skip
    given = reader.mapping(value, place, allowed, required=("job",))
    reader.time(given, place, "duration")
    return Submit(
        None,
        NewJob(
            reader.text(given, place, "job") or "",
            _or(reader.number(given, place, "pods", 1, MOST_NODES), 1),
            _or(reader.number(given, place, "chips", 0, 4096), 8),
            reader.number(given, place, "minAvailable", 1, MOST_NODES),
            reader.text(given, place, "resource") or NewJob("").resource,
            reader.texts(given, place, "labels"),
            reader.texts(given, place, "annotations"),
            reader.texts(given, place, "podLabels"),
            None if given.get("duration") is None else str(given["duration"]),
            reader.text(given, place, "simulate"),
            reader.text(given, place, "queue"),
        ),
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _advance(reader: _Reader, value: object, place: str) -> Step | None:
    span = reader.span(value, place)
    return None if span is None else Advance(span)


def _fault(action: str) -> Callable[[_Reader, object, str], Step | None]:
    def read(reader: _Reader, value: object, place: str) -> Step | None:
        if action == "clear" and value == "all":
            return Fault(action)
        more = ("level", "status") if action == "inject" else ()
        allowed = ("kind", "target", "chips", "code", *more)
        given = reader.mapping(value, place, allowed, required=("kind",))
        chips = reader.ranks(given, place, "chips")
        return Fault(
            action,
            reader.word(given, place, "kind", FAULT_KINDS),
            reader.target(given, place),
            chips if chips != ALL else None,
            reader.text(given, place, "level"),
            reader.text(given, place, "code"),
            reader.text(given, place, "status"),
        )

    return read


def _report(reader: _Reader, value: object, place: str) -> Step | None:
    given = reader.mapping(value, place, ("target", "kind", "data", "refused"), required=("target", "data"))
    data, kind = given.get("data"), reader.word(given, place, "kind", REPORT_KINDS) or REPORT_KINDS[0]
    text = data if isinstance(data, str) else json.dumps(data)
    return Report(reader.target(given, place), kind, text, reader.text(given, place, "refused"))


def _restart(reader: _Reader, value: object, place: str) -> Step | None:
    parts = ("scheduler", "controller")
    if value not in parts:
        reader.found.wrong(place, f"must be one of {', '.join(parts)}, got {shown(value)}")
        return None
    return Restart(str(value))


def _node_action(action: str) -> Callable[[_Reader, object, str], Step | None]:
    def read(reader: _Reader, value: object, place: str) -> Step | None:
        parent, _, key = place.rpartition(".")
        return NodeAction(action, reader.target({key: value}, parent, key))

    return read


def _delete(reader: _Reader, value: object, place: str) -> Step | None:
    given = reader.mapping(value, place, ("job", "pod", "node"))
    if len(given) != 1:
        reader.found.wrong(place, "must name one job, pod or node")
        return None
    kind = next(iter(given))
    return Delete(kind, reader.text(given, place, kind) or "")


def _expect(reader: _Reader, value: object, place: str) -> Step | None:
    allowed = (
        "job", "phase", "placed", "running", "untouched", "returned", "moved", "nodes", "avoids", "reason",
        "story", "within", "for"
    )  # fmt: skip
    given = reader.mapping(value, place, allowed, required=("job",))
    if given and not set(given) - {"job", "within", "for"}:
        reader.found.wrong(place, f"expects nothing: give one of {', '.join(allowed[1:-2])}")
    if given.get("within") is not None and given.get("for") is not None:
        reader.found.wrong(place, "has within and for: give one of them")
    nodes: dict[int, str] = {}
    for rank, node in reader.texts(given, place, "nodes").items():
        if not rank.isdecimal():
            reader.found.wrong(f"{place}.nodes", f"must have ranks as keys, got {shown(rank)}")
            continue
        nodes[int(rank)] = node
    return Expect(
        job=reader.text(given, place, "job") or "",
        phase=reader.text(given, place, "phase"),
        placed=reader.number(given, place, "placed"),
        running=reader.number(given, place, "running"),
        untouched=reader.ranks(given, place, "untouched"),
        returned=reader.ranks(given, place, "returned"),
        moved=reader.ranks(given, place, "moved"),
        nodes=nodes,
        avoids=reader.names(given, place, "avoids"),
        reason=reader.text(given, place, "reason"),
        story=reader.names(given, place, "story"),
        within=reader.time(given, place, "within"),
        throughout=reader.time(given, place, "for"),
    )


_STEPS: dict[str, Callable[[_Reader, object, str], Step | None]] = {
    "submit": _submit,
    "advance": _advance,
    "fault": _fault("inject"),
    "clear": _fault("clear"),
    "report": _report,
    "restart": _restart,
    "cordon": _node_action("cordon"),
    "uncordon": _node_action("uncordon"),
    "drain": _node_action("drain"),
    "delete": _delete,
    "expect": _expect,
}
