"""The names of fields in the records of leaders: a support bundle keeps them, whatever else is called so."""

from __future__ import annotations

import ast
import base64
import json
import zlib
from collections.abc import Iterator

import pytest

from ringwise.apps.journal.format import EVENT_TYPES
from ringwise.apps.support.pseudonyms import Pseudonyms
from ringwise.apps.support.rewriting import Texts, rewrite_event
from ringwise.apps.support.vocabulary import KEPT_RUNS, RECORD_KEYS, vocabulary
from ringwise.topology.boards import shipped_catalog
from tests.checkout import PACKAGE, SOURCES, nodes_of

#: Where records are written and read (F1, F3, F6, M1): whatever of the scheduler handles JSON.
WRITERS = (
    *(
        path
        for path in SOURCES
        if PACKAGE / "scheduler" in path.parents
        and (path.parent.name in ("faults", "defragment") or "json" in path.read_text(encoding="utf-8"))
        # What it publishes is never read again.
        and path.name != "tor_share_publisher.py"
    ),
    PACKAGE / "messages" / "move_plan.py",
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
    assert {key for key in _keys() if key.isidentifier()} <= RECORD_KEYS


def test_a_record_keeps_its_fields_and_gets_other_names() -> None:
    """A job may be called like a field; one that cannot be read is left out, as it has no effect."""
    names = Pseudonyms(vocabulary(shipped_catalog(())), KEPT_RUNS)
    written = {"version": 1, "jobs": [{"job": "acme/jobs", "node": "acme-1"}], "retries": {"acme/jobs": 2}}
    content = {"document": json.dumps(written), "records": "no json of acme", "moves": ""}
    collecting = Texts(names.collect, lambda text: names.collect(text, is_name=True), str)
    rewrite_event("ReschedulingRead", content, EVENT_TYPES, collecting)
    names.close()
    texts = Texts(names.replace, names.replace, names.replace_names)
    found = rewrite_event("ReschedulingRead", content, EVENT_TYPES, texts)
    acme = names.replace("acme")
    assert acme != "acme"
    assert json.loads(found["document"]) == {
        "version": 1,
        "jobs": [{"job": f"{acme}/jobs", "node": f"{acme}-1"}],
        "retries": {f"{acme}/jobs": 2},
    }
    assert (found["records"], found["moves"]) == ("", "")


def test_a_compressed_record_is_unpacked() -> None:
    packed = base64.b64encode(zlib.compress(b'{"version":1,"jobs":[{"job":"acme/x"}]}')).decode()
    content = {"document": json.dumps({"version": 1, "compressed": packed})}
    texts = Texts(str.upper, str.upper, str)
    found = rewrite_event("ReschedulingRead", content, EVENT_TYPES, texts)
    assert json.loads(found["document"]) == {"version": 1, "jobs": [{"job": "ACME/X"}]}


def test_why_a_start_is_unknown_stays_as_it_is_part_of_what_is_said() -> None:
    start = {"kind": "unknown", "why": "1 job before it does not say how long it runs"}
    texts = Texts(str.upper, str.upper, lambda text: f"<{text}>")
    found = rewrite_event(
        "StartsEstimated", {"starts": [{"job": "acme/x", "start": start}]}, EVENT_TYPES, texts
    )
    (one,) = found["starts"]
    assert (one["job"], one["start"]["why"]) == ("ACME/X", f"<{start['why']}>")


@pytest.mark.parametrize(
    ("pattern", "rewritten"),
    [
        ("^node-[a-f0-9]+$", "^NODE-[a-f0-9]+$"),
        (r"\Anode\d{2}\z", r"\ANODE\d{2}\z"),
        ("(?i:rack)(?P<n>b)|[[:alpha:]]x", "(?i:RACK)(?P<n>B)|[[:alpha:]]X"),
        (r"\p{Lu}\x41c", r"\p{Lu}\x41C"),
    ],
)
def test_letters_of_expressions_get_other_names(pattern: str, rewritten: str) -> None:
    texts = Texts(str.upper, str.lower, str)
    member = {"hyper_node": False, "name": "", "pattern": pattern, "selector": None}
    given = {"hyper_node": {"name": "S", "tier": 1, "members": [member]}}
    found = rewrite_event("HyperNodeSeen", given, EVENT_TYPES, texts)
    assert found["hyper_node"]["name"] == "s"
    assert found["hyper_node"]["members"][0]["pattern"] == rewritten
