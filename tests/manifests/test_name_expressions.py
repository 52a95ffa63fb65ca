"""Regular expressions of HyperNodes: Go's syntax, found anywhere in a name, in linear time."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.manifests.text.limits import PATTERN
from ringwise.manifests.text.name_expressions import NameExpressions, expression_error
from tests.examples import examples

ATOMS = [
    *("a", "b", "-", "0", ".", "[ab]", "[^a]", "[0-9b-]"),
    *(r"\d", r"\W", "^", "$", r"\b", r"\B", r"\.", "(?i:A)"),
]


def _larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?", "{2,}"])
    return (
        st.tuples(parts, parts).map("".join)
        | st.tuples(parts, parts).map(lambda two: f"(?:{two[0]}|{two[1]})")
        | st.tuples(parts, counts).map(lambda two: f"({two[0]}){two[1]}")
    )


EXPRESSIONS = st.recursive(st.sampled_from(ATOMS), _larger, max_leaves=6)


@settings(max_examples=examples(150))
@given(
    st.lists(EXPRESSIONS, unique=True, max_size=5),
    st.lists(st.text("ab-0.", min_size=1, max_size=7), max_size=5),
)
def test_each_finds_what_the_standard_library_finds(expressions: list[str], names: list[str]) -> None:
    found = NameExpressions(expressions)
    assert not found.errors
    for name in names:
        expected = [one for one in expressions if re.search(one, name, re.ASCII)]
        assert sorted(found.matching(name)) == sorted(expected)


@pytest.mark.parametrize(
    ("expression", "name", "found"),
    [
        ("node-1", "rack-node-17", True),
        ("^node-1$", "node-17", False),
        (r"\Anode-[[:digit:]]+\z", "node-17", True),
        (r"\Qn.1\E", "nx1", False),
        (r"\Qn.1", "n.1", True),
        ("(?i)NODE|RACK", "rack-1", True),
        (r"^\p{Ll}\pN\x31\x{32}\063$", "n0123", True),
        ("(?P<rack>a)(?<place>b)", "ab", True),
        ("x|", "abc", True),
        ("", "abc", True),
        ("^n.$", "n\0", True),
        ("^né$", "né", True),
        ("^n.$", "n\ud800", True),
    ],
)
def test_syntax(expression: str, name: str, found: bool) -> None:
    assert bool(NameExpressions([expression]).matching(name)) is found


@pytest.mark.parametrize(
    "expression",
    [
        *("(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?#a)", "(?P=a)", r"(a)\1", "a++", "a**"),
        *("*a", "a|*", "(", "a)", "[a", "[z-a]", "[[:letters:]]", r"\p{Letters}", r"\q", r"\Z", "\\"),
        *("a{2,1}", "a{1001}", "(a{100}){100}", r"\x{110000}", r"\xg", "\ud800"),
        "[a-z]" * 3 + "(?:" + "|".join(f"[a-c]{{{number}}}" for number in range(900, 1000, 9)) + ")",
    ],
)
def test_what_go_does_not_have_and_what_is_too_large_is_refused(expression: str) -> None:
    assert expression_error(expression)
    both = NameExpressions([expression, "a"])
    assert list(both.errors) == [expression]
    assert both.matching("a") == ["a"]


@pytest.mark.parametrize(
    "expression", ["(a+)+$", "^(a|a)*$", "(a*)*b|c", "(.*.*.*.*)=|;", "((a{0,9}){0,9}){0,9}[bc]$"]
)
def test_no_expression_is_slow(expression: str) -> None:
    # An engine that backtracks would need more steps than there are atoms.
    assert not NameExpressions([expression]).matching("a" * 250 + "!")


@pytest.mark.full
def test_the_longest_expressions_that_are_allowed_together() -> None:
    random.seed(1)
    expressions = ["".join(random.choices("abcdefgh-01234567", k=PATTERN.most)) for _ in range(256)]
    found = NameExpressions(expressions)
    assert [found.matching(f"x{one}") for one in expressions] == [[one] for one in expressions]


@pytest.mark.full
def test_the_library_is_imported_for_the_first_expression() -> None:
    script = (
        "import sys\nfrom ringwise.apps.extensions import new_scheduler\n"
        "new_scheduler().handle((), 0)\nassert 're2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
