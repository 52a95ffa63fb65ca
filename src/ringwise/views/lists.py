"""Which objects a list has, in what order and how many: of `get`, wherever its documents are made.

Labels and queue of an object are looked at before its document is made, the rest in the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ringwise.framework.selectors import all_hold
from ringwise.records import dataclass
from ringwise.state.model import Requirement
from ringwise.topology.natural import natural_key
from ringwise.topology.nearest import did_you_mean
from ringwise.views.kinds import BY_PLURAL, KINDS, Row, ShownKind
from ringwise.views.names import find_key

Fields = TypeVar("Fields", bound=Row)


class ListError(LookupError):
    """A list that cannot be made; the message is one line and says what can."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a user asks of a list, as it was typed."""

    #: As `kubectl -l` and `kubectl --field-selector` have them.
    selector: str = ""
    fields: str = ""
    queue: str | None = None
    states: tuple[str, ...] = ()
    #: A key of the kind; prefixed with - for descending order.
    sort_by: str = ""
    #: 0: all
    limit: int = 0
    #: Only jobs that a fault currently affects.
    affected: bool = False
    #: Only jobs of this user.
    user: str | None = None
    #: Only objects of this namespace, or chips or pods of this node.
    namespace: str | None = None
    node: str | None = None
    #: `NAME` or `NAMESPACE/NAME`; empty: all.
    names: tuple[str, ...] = ()
    #: The fixes of reasons are tried, as `describe` does, which takes as long as many placements.
    fixes: bool = False


EVERYTHING = Listing()


#: How kubectl's users write keys, and fields in field selectors.
_KUBECTL_KEYS = {
    "metadata.name": "name",
    "metadata.namespace": "namespace",
    "metadata.creationTimestamp": "-age",
    "status.phase": "phase",
    "spec.nodeName": "node",
    "spec.unschedulable": "unschedulable",
}
_FIELD = re.compile(r"\s*([^=!\s]+)\s*(==|!=|=)\s*([^=\s]*)\s*")


def state_words(kind: ShownKind) -> list[str]:
    """The words for `--state`."""
    return [_word(state) for state in kind.states()]


def _word(state: str) -> str:
    """As it is typed: in lower case, without blanks."""
    return state.lower().replace(" ", "-")


# -- the list ------------------------------------------------------------------------------------


class Choice:
    """A listing of one kind that was checked. Raises ListError."""

    def __init__(self, kind: str, listing: Listing) -> None:
        if kind not in BY_PLURAL:
            raise ListError(f"unknown kind {kind}; must be one of {', '.join(BY_PLURAL)}")
        self.kind = shown_kind = BY_PLURAL[kind]
        self.listing = listing
        self._requirements = read_selector(listing.selector)
        for option, wanted, takes, kinds in (
            ("-l", self._requirements, shown_kind.has_labels, _kinds(lambda one: one.has_labels)),
            ("--queue", listing.queue is not None, shown_kind.has_queue, _kinds(lambda one: one.has_queue)),
            ("--affected", listing.affected, kind == "jobs", "jobs"),
            ("--user", listing.user is not None, kind == "jobs", "jobs"),
            ("--node", listing.node is not None, kind in ("chips", "pods"), "chips or pods"),
        ):
            if wanted and not takes:
                raise ListError(f"{option} requires {kinds}; it cannot be combined with {kind}")
        self._states = {_word(state) for state in listing.states}
        states = state_words(shown_kind)
        for state in listing.states:
            if _word(state) not in states:
                raise ListError(
                    f'{kind}: unknown state "{state}"; must be one of {", ".join(states)}'
                    f"{did_you_mean(_word(state), states)}"
                )
        self._fields = list(self._field_requirements(kind))
        self._key, self._reverse = self._sort_key(kind)
        if listing.limit < 0:
            raise ListError(f"invalid limit {listing.limit}: must be at least 0 (0 lists all)")

    def _field_requirements(self, kind: str) -> Iterator[tuple[Callable[[Row], Any], str, bool]]:
        """Yield the field of a row, a value, and whether the field must have it."""
        keys = {path: self.kind.keys[key] for path, key in _KUBECTL_KEYS.items() if key in self.kind.keys}
        for part in self.listing.fields.split(",") if self.listing.fields else ():
            match = _FIELD.fullmatch(part)
            if match is None:
                raise ListError(
                    f'invalid field selector "{part}": expected field=value, field==value or field!=value, '
                    "separated by commas"
                )
            if match[1] not in keys:
                raise ListError(f'{kind}: unknown field "{match[1]}"; must be one of {", ".join(keys)}')
            yield keys[match[1]], match[3], match[2] != "!="

    def _sort_key(self, kind: str) -> tuple[Callable[[Row], Any] | None, bool]:
        typed = self.listing.sort_by
        if not typed:
            return None, False
        reverse = typed.startswith("-")
        path = typed.removeprefix("-").strip("{}").removeprefix(".")
        name = _KUBECTL_KEYS.get(path, path)
        if name.startswith("-"):
            name, reverse = name[1:], not reverse
        keys = self.kind.keys
        if name not in keys:
            raise ListError(
                f"{kind} cannot be sorted by {typed}; by: {', '.join(keys)} "
                "(prefix with - for descending order)"
            )
        return keys[name], reverse

    def takes(
        self, labels: Mapping[str, str], queue: str | None = None, namespace: str | None = None
    ) -> bool:
        """Whether an object with these is in the list."""
        wanted = self.listing
        return (
            wanted.queue in (None, queue)
            and (namespace is None or wanted.namespace in (None, namespace))
            and all_hold(self._requirements, labels)
        )

    def of(self, rows: Iterable[Fields]) -> tuple[list[Fields], int]:
        """Those of its states, in its order, up to its limit; and how many more there are."""
        shown = list(rows)
        if self.listing.names:
            by_key = {self.kind.key(row): row for row in shown}
            keys = [find_key(self.kind, by_key, name, None) for name in self.listing.names]
            shown = [by_key[key] for key in dict.fromkeys(keys)]
        if self._states:
            shown = [row for row in shown if self._states.intersection(map(_word, self.kind.states_of(row)))]
        for field, value, equal in self._fields:
            # As for states, case is ignored; names have no capitals.
            shown = [row for row in shown if (str(field(row) or "").lower() == value.lower()) is equal]
        if self.listing.affected:
            shown = [row for row in shown if row["faults"]]
        if self.listing.user is not None:
            shown = [row for row in shown if row["user"] == self.listing.user]
        if self._key is not None:
            shown = _sorted(shown, self._key, reverse=self._reverse)
        limit = self.listing.limit or len(shown)
        return shown[:limit], max(0, len(shown) - limit)


def _kinds(has: Callable[[ShownKind], bool]) -> str:
    *names, last = (kind.plural for kind in KINDS if has(kind))
    return f"{', '.join(names)} and {last}"


def _sorted(rows: list[Fields], key: Callable[[Row], Any], *, reverse: bool = False) -> list[Fields]:
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
    requirements: list[Requirement] = []
    begin, goes_on = 0, bool(text.strip())
    while goes_on:
        if match := _SET.match(text, begin):
            values = tuple(value.strip() for value in match[3].split(","))
            if not all(map(_ONE_VALUE.fullmatch, values)):
                match = None
            else:
                requirements.append(Requirement(match[1], "In" if match[2] == "in" else "NotIn", values))
        elif match := _EQUAL.match(text, begin):
            requirements.append(Requirement(match[1], "NotIn" if match[2] == "!=" else "In", (match[3],)))
        elif match := _EXISTS.match(text, begin):
            requirements.append(Requirement(match[2], "DoesNotExist" if match[1] else "Exists"))
        if match is None:
            rest = text[begin:].strip()
            where = f' at "{rest}"' if rest else " after its last comma"
            raise ListError(f'invalid selector "{text}"{where}: expected {_FORMS}, separated by commas')
        begin, goes_on = match.end(), bool(match[match.re.groups])
    return tuple(requirements)
