"""The names of fields in the records of leaders: a support bundle keeps them, whatever else is called so."""

from __future__ import annotations

import ast
import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import msgspec

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.support.pseudonyms import Pseudonyms, TextRole
from ringwise.apps.support.renaming import Renaming
from ringwise.apps.support.vocabulary import FIXED_RUNS, vocabulary
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages.events import TopologySeen
from ringwise.records import RECORDED
from ringwise.topology.reasons import SERVER_UNDER_TWO_SWITCHES
from tests.checkout import PACKAGE, SOURCES, nodes_of

#: Where records are written and read (F1, F3, F6, M1): whatever of the scheduler handles JSON.
WRITERS = (
    *(
        path
        for path in SOURCES
        if PACKAGE / "scheduler" in path.parents
        and (path.parent.name in ("faults", "defragment") or "json" in path.read_text(encoding="utf-8"))
        # What it publishes is never read again.
        and path.name != "leaf_switches.py"
    ),
)


def _keys() -> Iterator[str]:
    for path in WRITERS:
        for node in nodes_of(path):
            found: list[ast.expr | None] = []
            if isinstance(node, ast.Dict):
                found = list(node.keys)
            elif isinstance(node, ast.Subscript):
                found = [node.slice]
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "get"
            ):
                found = list(node.args[:1])
            yield from (
                one.value for one in found if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )


def test_every_field_of_a_record_is_known() -> None:
    assert {key for key in _keys() if key.isidentifier()} <= vocabulary(shipped_catalog(()))


def _renamed(event: str, content: dict[str, Any]) -> tuple[Any, Pseudonyms]:
    """Return the event as a bundle has it."""
    names = Pseudonyms(vocabulary(shipped_catalog(())), FIXED_RUNS)
    renaming = Renaming(names)
    renaming.event(event, content)
    names.close()
    return renaming.event(event, content), names


def _names_in(kind: Any) -> Iterator[str]:
    """The names of fields in the JSON of a value of this type."""
    for part in get_args(kind):
        yield from _names_in(part)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        for one in fields(kind):
            if one.metadata.get(RECORDED, True):
                yield one.name
                yield from _names_in(hints[one.name])


def test_every_field_of_the_leader_record_is_known() -> None:
    tables = new_scheduler()._context.record.all
    names = {name for table in tables for name in _names_in(table.entry)}
    assert names <= vocabulary(shipped_catalog(()))


def test_every_table_keeps_its_data_keys() -> None:
    tables = [table.name for table in new_scheduler()._context.record.all]
    keys = [f"{name}{ending}" for name in tables for ending in (".json", ".4.json")]
    found, _ = _renamed("LeaderRecordRead", {"tables": dict.fromkeys([*keys, "acme.json", "moves.acme"], "")})
    assert list(found["tables"]) == keys


def test_a_record_keeps_its_fields_and_gets_other_names() -> None:
    """A job may be called like a field; a record that cannot be read is left out, as it has no effect."""
    written = {"version": 2, "entries": {"acme/jobs": {"job": "acme/jobs", "used": 2}}}
    content = {
        "tables": {"retries.json": json.dumps(written), "moves.json": ""},
        "records": "no json of acme",
    }
    found, names = _renamed("LeaderRecordRead", content)
    acme = names.rename("acme", TextRole.NAME)
    assert acme != "acme"
    assert json.loads(found["tables"]["retries.json"]) == {
        "version": 2,
        "entries": {f"{acme}/jobs": {"job": f"{acme}/jobs", "used": 2}},
    }
    assert (found["tables"]["moves.json"], found["records"]) == ("", "")


def test_a_compressed_entry_is_unpacked() -> None:
    packed = base64.b64encode(zlib.compress(b'{"job":"acme/x"}')).decode()
    text = json.dumps({"version": 2, "entries": {"x": {"compressed": packed}}})
    found, names = _renamed("LeaderRecordRead", {"tables": {"retries.json": text}})
    (entry,) = json.loads(found["tables"]["retries.json"])["entries"].values()
    assert entry == {"job": names.rename("acme/x", TextRole.NAME)}


def test_a_reason_keeps_its_kind_and_its_details() -> None:
    """The message is made from them when it is shown."""
    reason = SERVER_UNDER_TWO_SWITCHES(origin="x", server="10.1.2.3", switch="acme", other="zoo")
    found, names = _renamed("TopologySeen", {"topology": None, "problem": msgspec.to_builtins(reason)})
    again = msgspec.convert(found, TopologySeen).problem
    assert again is not None
    assert again.kind == SERVER_UNDER_TWO_SWITCHES
    assert again.details["switch"] == names.rename("acme", TextRole.VALUE) != "acme"
    assert "10.1.2.3" not in again.message
