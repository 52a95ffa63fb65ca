"""The table of the kinds of objects that are listed and described.

It imports little, because commands read it when they start. How the objects of a kind are found and described
is in `apps/sources/documents.py`, how they are drawn in `cli/printers/kinds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from ringwise.records import dataclass

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ShownKind:
    """A kind: its names and documents, and what `get` can do with its rows."""

    #: As people write it; its documents are `TITLEsDocument` and, if it can be described, `TITLEDocument`.
    title: str
    #: The module of `views/documents` that has its documents.
    module: str
    #: The words for `--state`, and those of them that a row has.
    states: Callable[[], Sequence[str]]
    states_of: Callable[[Row], Iterable[str]]
    #: The keys for `--sort-by`.
    keys: Mapping[str, Callable[[Row], Any]]
    #: Fields that identify a row.
    key_fields: tuple[str, ...] = ("name",)
    has_labels: bool = True
    has_queue: bool = False
    #: Rows say why jobs are pending, for which placements are tried.
    has_reasons: bool = False
    is_described: bool = True
    #: A user can delete it from a lab.
    is_deletable: bool = False
    #: As in Kubernetes and Volcano.
    short_names: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As it is typed, and as the schema of its document has it."""
        return self.title.lower()

    @property
    def word(self) -> str:
        """As a sentence has it: a node, a HyperNode."""
        return self.name if self.title.istitle() else self.title

    @property
    def plural(self) -> str:
        return f"{self.name}s"

    @property
    def words(self) -> tuple[str, ...]:
        """The words that a command takes for it."""
        return (self.plural, self.name, *self.short_names)

    def key(self, row: Row) -> str:
        """The name of a row as it is typed: `NAMESPACE/NAME` or `NAME`."""
        return "/".join(str(row[name]) for name in self.key_fields)

    @property
    def list_type(self) -> type:
        return self._type(f"{self.title}sDocument")

    @property
    def object_type(self) -> type:
        return self._type(f"{self.title}Document")

    def _type(self, name: str) -> type:
        result: type = getattr(import_module(f"ringwise.views.documents.{self.module}"), name)
        return result


@cache
def _node_states() -> list[str]:
    """Worst first."""
    from ringwise.scheduler.node_states import NodeState

    return [state.value for state in NodeState]


def _states_of_node(row: Row) -> list[str]:
    return [one["state"] for one in row["states"]]


def _chip_states() -> Sequence[str]:
    from ringwise.scheduler.node_states import CHIP_STATES

    return CHIP_STATES


def _job_states(row: Row) -> tuple[str, ...]:
    outcome = row["state"]
    # Where tables show `refused`, the phase of the object tells nothing.
    return (outcome,) if outcome == "rejected" else (outcome, row["phase"])


def _total(state: str) -> Callable[[Row], int]:
    return lambda row: sum(len(chips[state]) for chips in row["chips"])


def _field(name: str) -> Callable[[Row], Any]:
    return lambda row: row[name]


def _fields(*names: str) -> dict[str, Callable[[Row], Any]]:
    return {name: _field(name) for name in names}


def _age(row: Row) -> int:
    return -int(row["created"])


def _state(row: Row) -> tuple[str]:
    return (row["state"],)


_OUTCOMES = ("scheduled", "pending", "rejected", "suspended", "finished")
_PHASES = (
    *("Running", "Starting", "Inqueue", "Restarting", "Completing", "Completed", "Succeeded", "Failed"),
    *("Aborting", "Aborted", "Terminating", "Terminated", "Unknown"),
)

KINDS = (
    ShownKind(
        "Job",
        "cluster",
        lambda: (*_OUTCOMES, *_PHASES),
        _job_states,
        {
            **_fields("name", "namespace", "queue", "phase", "pods", "chips", "priority"),
            "age": _age,
            "start": lambda row: (row.get("expected_start") or {}).get("earliest"),
        },
        key_fields=("namespace", "name"),
        has_queue=True,
        has_reasons=True,
        is_deletable=True,
        short_names=("vcjobs", "vcjob", "vj"),
    ),
    ShownKind(
        "Node",
        "cluster",
        _node_states,
        _states_of_node,
        {
            "name": _field("name"),
            "state": lambda row: _node_states().index(row["state"]),
            **{state: _total(state) for state in ("free", "used", "faulty")},
            "board": lambda row: ", ".join(chips["board"] or "" for chips in row["chips"]) or None,
            **_fields("pods", "switch", "superpod"),
            "unschedulable": lambda row: str("cordoned" in _states_of_node(row)).lower(),
        },
        is_deletable=True,
        short_names=("no",),
    ),
    ShownKind(
        "Queue",
        "cluster",
        lambda: ("Open", "Closed", "Closing", "Unknown"),
        _state,
        _fields("name", "state", "weight", "jobs", "pending"),
        # They are not read.
        has_labels=False,
        is_deletable=True,
        short_names=("q",),
    ),
    ShownKind(
        "Pod",
        "cluster",
        lambda: ("Pending", "Running", "Succeeded", "Failed", "Terminating", "Unknown"),
        lambda row: (row["phase"],),
        {
            **_fields("name", "namespace", "phase", "node", "rank"),
            "chips": _field("requested_chips"),
            "age": _age,
        },
        key_fields=("namespace", "name"),
        has_queue=True,
        has_reasons=True,
        is_deletable=True,
        short_names=("po",),
    ),
    ShownKind(
        "Chip",
        "cluster",
        _chip_states,
        _state,
        _fields("node", "chip", "state", "pod"),
        key_fields=("node", "chip"),
        is_described=False,
    ),
    ShownKind(
        "Reservation",
        "reservations",
        lambda: ("pending", "active"),
        _state,
        _fields("name", "start", "end", "queue", "namespace"),
        has_labels=False,
        is_described=False,
        is_deletable=True,
    ),
    ShownKind(
        "Isolation",
        "topology",
        lambda: ("pending", "active"),
        _state,
        _fields("name", "target", "start", "by"),
        has_labels=False,
        is_described=False,
        is_deletable=True,
    ),
    ShownKind(
        "MovePlan",
        "maintenance",
        lambda: ("pending", "queued", "running", "done", "failed", "rejected"),
        _state,
        {**_fields("name", "job", "state", "chips"), "age": _age},
        has_labels=False,
        is_deletable=True,
        short_names=("mp",),
    ),
    ShownKind(
        "UsageLimit",
        "limits",
        tuple,
        lambda row: (),
        _fields("name"),
        has_labels=False,
        is_described=False,
        is_deletable=True,
        short_names=("ulim",),
    ),
    ShownKind(
        "HyperNode",
        "hyper_nodes",
        lambda: ("valid", "partial", "invalid"),
        _state,
        {**_fields("name", "tier", "parent", "nodes"), "tier-name": _field("tier_name")},
        short_names=("hn",),
    ),
)
#: By the word for several of them.
BY_PLURAL = {kind.plural: kind for kind in KINDS}
#: By the word for one of them.
BY_NAME = {kind.name: kind for kind in KINDS}
#: By every word that a command takes.
BY_WORD = {word: kind for kind in KINDS for word in kind.words}
#: Kinds that the dashboard shows as lists; of the others it has rows, and pages of their own.
OPERATIONS = tuple(kind for kind in KINDS if kind.name not in ("job", "node", "queue", "pod", "chip"))
