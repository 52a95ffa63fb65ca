"""Which objects a list has, in what order and how many: of `get`, wherever its documents are made.

Labels and queue of an object are looked at before its document is made, the rest in the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ringwise.framework.selectors import all_hold
from ringwise.records import dataclass
from ringwise.scheduler.node_states import CHIP_STATES, NodeState
from ringwise.state.model import Requirement
from ringwise.topology.natural import natural_key
from ringwise.topology.nearest import did_you_mean

Fields = TypeVar("Fields", bound=Mapping[str, object])


class ListError(LookupError):
    """A list that cannot be made; the message is one line and says what can."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a user asks of a list, as it was typed."""

    #: As `kubectl -l` has it.
    selector: str = ""
    queue: str | None = None
    states: tuple[str, ...] = ()
    #: A key of the kind; with - before it the other way round.
    sort_by: str = ""
    #: 0: all
    limit: int = 0
    #: Only jobs that a fault hurts now.
    hurt: bool = False


EVERYTHING = Listing()


# -- what a kind has -----------------------------------------------------------------------------


def _job_states(row: Mapping[str, Any]) -> tuple[str, ...]:
    outcome = row["outcome"]
    # Where tables show `refused`, the phase of the object tells nothing.
    return (outcome,) if outcome == "refused" else (outcome, row["phase"])


def _total(state: str) -> Callable[[Mapping[str, Any]], int]:
    return lambda row: sum(len(chips[state]) for chips in row["chips"])


def _field(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda row: row[name]


def _fields(*names: str) -> dict[str, Callable[[Mapping[str, Any]], Any]]:
    return {name: _field(name) for name in names}


def _age(row: Mapping[str, Any]) -> int:
    return -int(row["created"])


_OUTCOMES = ("placed", "pending", "refused", "suspended", "ended")
_PHASES = (
    *("Running", "Starting", "Inqueue", "Restarting", "Completing", "Completed", "Succeeded", "Failed"),
    *("Aborting", "Aborted", "Terminating", "Terminated", "Unknown"),
)
_WORST_FIRST = [state.value for state in NodeState]


@dataclass(frozen=True, slots=True)
class _Kind:
    """The words for `--state`, which of them a row has, and the keys for `--sort-by`."""

    states: Sequence[str]
    states_of: Callable[[Mapping[str, Any]], Iterable[str]]
    keys: Mapping[str, Callable[[Mapping[str, Any]], Any]]
    has_labels: bool = True
    has_queue: bool = False


_KINDS = {
    "jobs": _Kind(
        (*_OUTCOMES, *_PHASES),
        _job_states,
        {**_fields("name", "namespace", "queue", "phase", "pods", "chips", "priority"), "age": _age},
        has_queue=True,
    ),
    "nodes": _Kind(
        _WORST_FIRST,
        lambda row: [one["state"] for one in row["states"]],
        {
            "name": _field("name"),
            "state": lambda row: _WORST_FIRST.index(row["state"]),
            **{state: _total(state) for state in ("free", "used", "faulty")},
            "board": lambda row: ", ".join(chips["board"] or "" for chips in row["chips"]) or None,
            **_fields("pods", "switch", "superpod"),
        },
    ),
    "queues": _Kind(
        ("Open", "Closed", "Closing", "Unknown"),
        lambda row: [row["state"]],
        _fields("name", "state", "weight", "jobs", "waiting"),
        # They are not read.
        has_labels=False,
    ),
    "pods": _Kind(
        ("Pending", "Running", "Succeeded", "Failed", "Terminating", "Unknown"),
        lambda row: [row["phase"]],
        {**_fields("name", "namespace", "phase", "node", "rank"), "chips": _field("asks"), "age": _age},
        has_queue=True,
    ),
    "reservations": _Kind(
        ("ahead", "current"),
        lambda row: [row["state"]],
        _fields("name", "start", "end", "queue", "namespace"),
        has_labels=False,
    ),
    "hypernodes": _Kind(
        ("valid", "partial", "ignored"),
        lambda row: [row["state"]],
        {**_fields("name", "tier", "parent", "nodes"), "tier-name": _field("tier_name")},
    ),
    "chips": _Kind(CHIP_STATES, lambda row: [row["state"]], _fields("node", "chip", "state", "pod")),
}
#: How kubectl's users write keys.
_KUBECTL_KEYS = {
    "metadata.name": "name",
    "metadata.namespace": "namespace",
    "metadata.creationTimestamp": "-age",
    "status.phase": "phase",
    "spec.nodeName": "node",
}


def states_of(kind: str) -> list[str]:
    """The words for `--state`."""
    return [_word(state) for state in _KINDS[kind].states]


def sort_keys_of(kind: str) -> list[str]:
    return list(_KINDS[kind].keys)


def _word(state: str) -> str:
    """As it is typed: in lower case, without blanks."""
    return state.lower().replace(" ", "-")


# -- the list ------------------------------------------------------------------------------------


class Choice:
    """A listing of one kind that was checked. Raises ListError."""

    def __init__(self, kind: str, listing: Listing) -> None:
        self._kind = known = _KINDS[kind]
        self._listing = listing
        self._requirements = read_selector(listing.selector)
        if self._requirements and not known.has_labels:
            raise ListError(f"-l goes with {_kinds(lambda one: one.has_labels)}, not with {kind}")
        if listing.queue is not None and not known.has_queue:
            raise ListError(f"--queue goes with {_kinds(lambda one: one.has_queue)}, not with {kind}")
        if listing.hurt and kind != "jobs":
            raise ListError(f"--hurt goes with jobs, not with {kind}")
        self._states = {_word(state) for state in listing.states}
        for state in listing.states:
            if _word(state) not in states_of(kind):
                known_states = states_of(kind)
                raise ListError(
                    f"{kind} have no state {state}{did_you_mean(_word(state), known_states)}; "
                    f"they have: {', '.join(known_states)}"
                )
        self._key, self._reverse = self._sort_key(kind)
        if listing.limit < 0:
            raise ListError(f"a limit of {listing.limit} is below 0; 0 lists all")

    def _sort_key(self, kind: str) -> tuple[Callable[[Mapping[str, Any]], Any] | None, bool]:
        typed = self._listing.sort_by
        if not typed:
            return None, False
        reverse = typed.startswith("-")
        path = typed.removeprefix("-").strip("{}").removeprefix(".")
        name = _KUBECTL_KEYS.get(path, path)
        if name.startswith("-"):
            name, reverse = name[1:], not reverse
        keys = self._kind.keys
        if name not in keys:
            raise ListError(
                f"{kind} cannot be sorted by {typed}; by: {', '.join(keys)} "
                "(with - before it: the other way round)"
            )
        return keys[name], reverse

    def takes(self, labels: Mapping[str, str], queue: str | None = None) -> bool:
        """Whether an object with these is in the list."""
        wanted = self._listing.queue
        return (wanted is None or queue == wanted) and all_hold(self._requirements, labels)

    def of(self, rows: Iterable[Fields]) -> tuple[list[Fields], int]:
        """Those of its states, in its order, up to its limit; and how many more there are."""
        found = list(rows)
        if self._states:
            found = [row for row in found if self._states.intersection(map(_word, self._kind.states_of(row)))]
        if self._listing.hurt:
            found = [row for row in found if row["hurt"]]
        if self._key is not None:
            found = _sorted(found, self._key, reverse=self._reverse)
        limit = self._listing.limit or len(found)
        return found[:limit], max(0, len(found) - limit)


def _kinds(has: Callable[[_Kind], bool]) -> str:
    *names, last = (name for name, kind in _KINDS.items() if has(kind))
    return f"{', '.join(names)} and {last}"


def _sorted(
    rows: list[Fields], key: Callable[[Mapping[str, Any]], Any], *, reverse: bool = False
) -> list[Fields]:
    """Rows without a value come last; equal ones stay in the order of the list."""
    with_value = [row for row in rows if key(row) is not None]

    def order(row: Fields) -> Any:
        value = key(row)
        return natural_key(value) if isinstance(value, str) else value

    return sorted(with_value, key=order, reverse=reverse) + [row for row in rows if key(row) is None]


# -- selectors -----------------------------------------------------------------------------------

_KEY = r"[A-Za-z0-9](?:[\w./-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*(,|$)", re.ASCII)
_EQUAL = re.compile(rf"\s*({_KEY})\s*(==|!=|=)\s*({_VALUE})\s*(,|$)", re.ASCII)
_EXISTS = re.compile(rf"\s*(!?)\s*({_KEY})\s*(,|$)", re.ASCII)
_ONE_VALUE = re.compile(_VALUE, re.ASCII)
_FORMS = "key=value, key!=value, key in (a,b), key notin (a,b), key or !key"


def read_selector(text: str) -> tuple[Requirement, ...]:
    """A selector of labels as kubectl takes it. Raises ListError."""
    found: list[Requirement] = []
    begin, goes_on = 0, bool(text.strip())
    while goes_on:
        if match := _SET.match(text, begin):
            values = tuple(value.strip() for value in match[3].split(","))
            if not all(map(_ONE_VALUE.fullmatch, values)):
                match = None
            else:
                found.append(Requirement(match[1], "In" if match[2] == "in" else "NotIn", values))
        elif match := _EQUAL.match(text, begin):
            found.append(Requirement(match[1], "NotIn" if match[2] == "!=" else "In", (match[3],)))
        elif match := _EXISTS.match(text, begin):
            found.append(Requirement(match[2], "DoesNotExist" if match[1] else "Exists"))
        if match is None:
            rest = text[begin:].strip()
            where = f" at '{rest}'" if rest else " after its last comma"
            raise ListError(
                f"the selector '{text}' cannot be read{where}; write {_FORMS}, with commas between"
            )
        begin, goes_on = match.end(), bool(match[match.re.groups])
    return tuple(found)
