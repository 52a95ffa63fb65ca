"""The style sheet sets a property of a class once: a name that two views use breaks one of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.checkout import PACKAGE

SHEET = PACKAGE / "web/page/style.css"
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")


def declarations(text: str) -> Iterator[tuple[str, str, str]]:
    """Each property that is set: inside which at-rules, for which selector, and its name."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    # From the inside: blocks of at-rules are cut out with what is inside them.
    for match in re.finditer(
        r"(@media[^{]+)\{((?:[^{}]*\{[^{}]*\}|[^{}]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\})*)\s*\}", text
    ):
        yield from _rules(" ".join(match[1].split()), match[2])
        text = text.replace(match[0], "")
    yield from _rules("", text)


def _rules(context: str, text: str) -> Iterator[tuple[str, str, str]]:
    for match in _RULE.finditer(text):
        for selector in match[1].split(","):
            for part in match[2].split(";"):
                name, colon, _ = part.partition(":")
                if colon and not selector.strip().endswith("%"):
                    yield context, " ".join(selector.split()), name.strip()


def twice(text: str) -> list[tuple[str, str, str]]:
    """Of classes; elements have what they share in one rule and what they have besides in another."""
    found = Counter(one for one in declarations(text) if one[1].startswith("."))
    return [one for one, times in found.items() if times > 1]


def test_no_property_of_a_class_is_set_twice() -> None:
    text = SHEET.read_text(encoding="utf-8")
    assert len(list(declarations(text))) > 500
    assert twice(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (".a { color: red; } .b { color: red; }", []),
        (".a { color: red; } .a { width: 0; }", []),
        (".a { color: red; } @media (x) { .a { color: blue; } }", []),
        (".a { display: grid; } .b { x: y } .a, .c { display: flex; }", [("", ".a", "display")]),
        ("@media (x) { .a { y: 1 } .a { y: 2 } }", [("@media (x)", ".a", "y")]),
    ],
)
def test_what_is_set_twice_is_found(text: str, found: list[tuple[str, str, str]]) -> None:
    assert twice(text) == found
