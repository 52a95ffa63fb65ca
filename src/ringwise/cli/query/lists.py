"""Which rows `ringwise get` lists: filters, order, a limit for tables."""

from __future__ import annotations

import getpass
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.completion import LabName
from ringwise.cli.options import flag, option, with_options
from ringwise.cli.output import stop
from ringwise.cli.query.queries import FROM_CLUSTER, FROM_LAB, asking, namespace_of, source_of
from ringwise.views.kinds import BY_PLURAL
from ringwise.views.names import qualified

if TYPE_CHECKING:
    from ringwise.apps.sources.protocol import QuerySource
    from ringwise.views.lists import Listing

#: Fields of rows that change although the object does not, and durations in texts.
_PASSING = frozenset({"expected_start", "fixes", "details"})
_DURATION = re.compile(r"\b(?:[0-9]+[dhms])+\b", re.ASCII)
#: Rows of a table in a terminal, without `--limit`.
ROWS = 100
_TABLES = ("table", "wide")
#: States as squeue writes them.
_OF_SQUEUE = {
    "CD": "completed",
    "CG": "completing",
    "F": "failed",
    "PD": "pending",
    "R": "running",
    "S": "suspended",
}
#: Between two looks at what is watched. States and reasons are computed from all objects for each.
SECONDS = {FROM_LAB: 1.0, FROM_CLUSTER: 5.0}

list_options = with_options(
    option(
        "-l --selector",
        "Label selector, as in kubectl; chips are selected by the labels of their node.",
        default="",
    ),
    option(
        "--field-selector fields",
        "Field selector, as in kubectl, such as status.phase=Running.",
        default="",
    ),
    option("--queue -p --partition", "Only jobs and pods of this queue.", LabName("queue")),
    option("-u --user", "Only jobs of this user."),
    flag("--me", "Only jobs of the current user."),
    flag("--affected", "Only jobs affected by a fault."),
    option(
        "--state -t --states states",
        "Only objects in this state, also as squeue writes it; can be repeated.",
        multiple=True,
    ),
    flag(
        "-w --watch",
        "After listing, print each row that changes, until Ctrl-C; cannot be combined with -f.",
    ),
    flag("--start", "Only pending jobs, sorted by expected start."),
    option("--sort-by", "Sort by column; prefix with - for descending order.", default=""),
    option(
        "--limit",
        f"Maximum number of rows; 0 for all.  [default: {ROWS} in a terminal, else all]",
        click.IntRange(min=0),
    ),
)


def take_listing(kind: str, output: str, options: dict[str, Any]) -> tuple[Listing, int | None]:
    """What the options of a list ask for, taken out of them. What cannot be ends the command.

    The second is the limit of a list that is watched: of its first table, not of what is compared.
    """
    from ringwise.views.lists import Choice, ListError, Listing

    states = tuple(
        _OF_SQUEUE.get(word.upper(), word)
        for state in options.pop("states")
        for part in state.split(",")
        if (word := part.strip())
    )
    if options.pop("start"):
        if kind != "jobs":
            raise stop(f"ringwise: --start requires jobs; it cannot be combined with {kind}")
        states = states or ("pending",)
        options["sort_by"] = options["sort_by"] or "start"
    if options.pop("me"):
        options["user"] = options["user"] or getpass.getuser()
    limit: int | None = options.pop("limit")
    if limit is not None and output not in _TABLES:
        raise stop(f"ringwise: --limit requires -o table; it cannot be combined with -o {output}")
    if limit is None:
        limit = ROWS if output in _TABLES and _in_terminal() else 0
    watch: bool = options.pop("watch")
    if watch and output not in _TABLES:
        raise stop(f"ringwise: --watch requires -o table; it cannot be combined with -o {output}")
    if watch and options["files"]:
        raise stop("ringwise: --watch requires a lab or a cluster; it cannot be combined with -f")
    namespace = namespace_of(options) if "namespace" in BY_PLURAL[kind].key_fields else None
    # A name may say its namespace itself.
    names = tuple(qualified(name, namespace) for name in options.pop("names"))
    asked = ("selector", "fields", "queue", "user", "sort_by", "affected", "node")
    listing = Listing(
        **{name: options.pop(name) for name in asked},
        states=states,
        limit=0 if watch else limit,
        namespace=None if names else namespace,
        names=names,
        # Tables have no fixes.
        fixes=kind == "jobs" and len(names) == 1 and output not in _TABLES,
    )
    try:
        Choice(kind, listing)
    except ListError as error:
        raise stop(f"ringwise: {error}") from None
    return listing, limit if watch else None


def watch_list(
    kind: str,
    options: dict[str, Any],
    question: Callable[[QuerySource], Any],
    document: Any,
    draw: Callable[..., tuple[str, ...]],
    *,
    limit: int,
) -> None:
    """Draw the list, then each row that changes, as `kubectl get --watch` does, until Ctrl-C.

    An object that left the list is printed as a line of text, because it no longer has a row. If the
    table gets other columns, its headings are printed again.
    """
    rows = document[kind]
    more = {"remaining_item_count": len(rows) - limit} if 0 < limit < len(rows) else {}
    heads = draw({**document, kind: rows[: limit or None], **more})
    headed, previous = bool(rows), _by_key(kind, rows)
    seconds = SECONDS[source_of(options)]
    with suppress(KeyboardInterrupt), asking(options, follows=True) as source:
        while True:
            # A pipe gets them now.
            sys.stdout.flush()
            _wait(seconds)
            document = question(source())
            current = _by_key(kind, document[kind])
            for key in previous.keys() - current.keys():
                click.echo(f"{kind[:-1]} {'/'.join(key)} is no longer in the list")
            changed = [
                number
                for number, (key, row) in enumerate(current.items())
                if key not in previous or _lasting(previous[key]) != _lasting(row)
            ]
            if changed:
                heads = draw(document, changed if headed else None, heads)
                headed = True
            previous = current


def _by_key(kind: str, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, ...], Mapping[str, Any]]:
    names = BY_PLURAL[kind].key_fields
    return {tuple(row[name] for name in names): row for row in rows}


def _lasting(value: Any) -> Any:
    """Return a row without what changes with time alone: expected starts, fixes, and durations in texts."""
    if isinstance(value, Mapping):
        return {name: _lasting(item) for name, item in value.items() if name not in _PASSING}
    if isinstance(value, list):
        return [_lasting(item) for item in value]
    return _DURATION.sub("", value) if isinstance(value, str) else value


def _wait(seconds: float) -> None:
    time.sleep(seconds)


def _in_terminal() -> bool:
    return sys.stdout.isatty()
