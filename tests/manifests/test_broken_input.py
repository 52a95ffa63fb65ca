"""Bytes that are not documents, by accident or malice: one line each, at once, and no traceback."""

from __future__ import annotations

import pytest

from ringwise.manifests.bundle import read_bundle
from tests.manifests.builders import pod_group, text_of


def billion_laughs() -> bytes:
    rows = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for above, name in zip("abcdefgh", "bcdefghi", strict=True):
        rows.append(f"{name}: &{name} [{', '.join([f'*{above}'] * 10)}]")
    return "\n".join(rows).encode()


BROKEN: dict[str, tuple[bytes, str]] = {
    "a million brackets": (b"[" * 1_000_000, "document 1: is nested too deeply to be a Kubernetes object"),
    "a million objects inside each other": (
        b'{"a":' * 1_000_000,
        "document 1: is nested too deeply to be a Kubernetes object",
    ),
    "absurd depth inside an item": (
        b'{"kind":"List","items":[{"apiVersion":"v1","kind":"Pod","x":' + b"[" * 1_000_000,
        "document 1: is nested too deeply to be a Kubernetes object",
    ),
    "a million YAML brackets": (
        b"a: " + b"[" * 1_000_000,
        "document 1: line 1: is nested more than 100 levels deep",
    ),
    "a million YAML dashes": (
        b"- " * 1_000_000,
        "document 1: line 1: is nested more than 100 levels deep",
    ),
    "billion laughs": (
        billion_laughs(),
        "document 1: line 5: aliases expand to more than 100000 values",
    ),
    "an alias inside its own anchor": (
        b"a: &a [*a]",
        "document 1: line 1: anchor *a is not defined before its alias",
    ),
    "NUL bytes": (
        b"\x00" * 10,
        "document 1: line 1: invalid YAML: unacceptable character #x0000: control characters are not allowed",
    ),
    "NUL in JSON": (
        b'{"kind": "a\x00"}',
        "document 1: invalid JSON in line 1, column 12: invalid character",
    ),
    "not UTF-8 in YAML": (
        b"kind: \xff",
        "document 1: line 1: invalid YAML: unacceptable character #x00ff: invalid leading UTF-8 octet",
    ),
    "not UTF-8 in JSON": (
        b'{"apiVersion":"v1","kind":"Pod","never-read":"\xff"}',
        "document 1: is not UTF-8 text: invalid start byte at byte 46",
    ),
    "JSON cut short": (
        b'{"apiVersion": "v1",\n "kind": "Po',
        "document 1: invalid JSON in line 2, column 10: the value that begins here is not terminated",
    ),
    "a comma too many": (
        b'{"kind": "List", "items": [{"apiVersion": "v1", "kind": "Event"},]}',
        "document 1: invalid JSON in line 1, column 66: trailing comma",
    ),
    "a missing colon": (
        b'{"apiVersion" "v1"}',
        "document 1: invalid JSON in line 1, column 15: expected ':'",
    ),
    "no closing brace": (
        b'{"apiVersion": "v1" "kind": "Pod"}',
        "document 1: invalid JSON in line 1, column 21: expected ',' or '}'",
    ),
    "a key without quotes": (
        b'{"apiVersion": "v1", kind: "Pod"}',
        "document 1: invalid JSON in line 1, column 22: expected a key in double quotes",
    ),
    "a tab as indent": (
        b"a:\n\tb: 1\n",
        "document 1: line 2: invalid YAML in column 1: found character that cannot start any token",
    ),
    "a key twice": (
        b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  name: b\n",
        'document 1: line 5: the key "name" is repeated in one mapping',
    ),
    "a mapping as key": (b"{a: 1}: 2", "document 1: line 1: a key must be plain text"),
    "code in a tag": (
        b"!!python/object/apply:os.system ['true']",
        'document 1: line 1: the tag "tag:yaml.org,2002:python/object/apply:os.system" is not allowed here',
    ),
    "prose": (b"hello world", "document 1: must be an object with apiVersion and kind"),
    "a number": (b"[1, 2]", "document 1: must be an object with apiVersion and kind"),
    "no kind": (
        b"apiVersion: v1\n",
        "document 1: kind: Required value: such as Pod, Node or Job",
    ),
    "no version": (b"kind: Node\n", "document 1: apiVersion: Required value: a Node has v1"),
    "a kind of a megabyte": (
        text_of({"apiVersion": "v1", "kind": "K" * 2**20}),
        f'document 1: kind: Invalid value: "{"K" * 60}..." (1048576 characters): must be a name like Pod',
    ),
    "a kind that is a number": (
        b"apiVersion: v1\nkind: 3\n",
        "document 1: kind: Invalid value: 3: must be a string",
    ),
    "a wrong version": (
        text_of({**pod_group(), "apiVersion": "v1"}),
        'document 1: apiVersion: Invalid value: "v1": a PodGroup has scheduling.volcano.sh/v1beta1',
    ),
    "a List in a List": (
        text_of({"kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": []}]}),
        "document 1: items[0]: kind: a List inside a List is not supported",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_unreadable_input_gives_one_line(case: str) -> None:
    data, line = BROKEN[case]
    assert [str(error) for error in read_bundle(["-"], stdin=data).errors] == [f"stdin: {line}"]
