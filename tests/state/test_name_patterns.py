"""Regular expressions of HyperNodes: Go's syntax, found anywhere in a name, in bounded time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.state.name_patterns import BadPattern, NamePattern, PatternTooCostly, SearchableNames
from tests.examples import examples

ATOMS = [
    "a",
    "b",
    "-",
    "0",
    ".",
    "[ab]",
    "[^a]",
    "[0-9b-]",
    r"\d",
    r"\W",
    "^",
    "$",
    r"\b",
    r"\B",
    r"\.",
    "(?i:A)",
]


def _larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?", "{2,}"])
    return (
        st.tuples(parts, parts).map("".join)
        | st.tuples(parts, parts).map(lambda two: f"(?:{two[0]}|{two[1]})")
        | st.tuples(parts, counts).map(lambda two: f"({two[0]}){two[1]}")
    )


@settings(max_examples=examples(150))
@given(st.recursive(st.sampled_from(ATOMS), _larger, max_leaves=6), st.text("ab-0.", min_size=1, max_size=7))
def test_it_finds_what_the_standard_library_finds(pattern: str, name: str) -> None:
    assert NamePattern(pattern).found_in(name) == bool(re.search(pattern, name, re.ASCII))


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("node-1", "rack-node-17", True),
        ("^node-1$", "node-17", False),
        (r"\Anode-[[:digit:]]+\z", "node-17", True),
        (r"\Qn.1\E", "nx1", False),
        ("(?i)NODE|RACK", "rack-1", True),
        ("a{,2}", "a{,2}", True),
        ("[]a]", "]", True),
        ("[a-b-c]", "-", True),
        (r"^\p{Ll}\pN\x31\x{32}\063$", "n0123", True),
        (r"\PL", "abc", False),
        ("(?P<rack>a)(?<place>b)", "ab", True),
        ("x|", "abc", True),
        (r"[^\x00-\x{10FFFF}]", "abc", False),
        ("n[[:^alpha:]]", "n1", True),
    ],
)
def test_syntax(pattern: str, name: str, found: bool) -> None:
    assert NamePattern(pattern).found_in(name) is found


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?#a)", "(?P=a)", r"(a)\1", "a++", "a**"),
        *("*a", "a|*", "{2}", "(", "a)", "[a", "[z-a]", "[[:letters:]]", r"\p{Letters}", r"\q", r"\Z", "\\"),
        *("a{2,1}", "a{1001}", "(a{100}){100}", "(?P<a>x)(?P<a>y)", "(?-)", r"\x{110000}", r"\xg"),
        *("(" * 60 + ")" * 60, "([a-z][a-z][a-z]){999}"),
    ],
)
def test_what_go_does_not_have_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        NamePattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "^(a|a)*$", "(a*)*b|c", "(.*.*.*.*)=|;", "((a{0,9}){0,9}){0,9}[bc]$"]
)
def test_no_expression_is_slow(pattern: str) -> None:
    # An engine that goes back would need more steps than there are atoms.
    assert not NamePattern(pattern).found_in("a" * 250 + "!")


def test_one_that_needs_too_many_steps_is_told() -> None:
    # The automaton has to remember which of the last characters were an a: 2 ** 60 sets.
    names = SearchableNames(
        f"{number:064b}".replace("0", "a").replace("1", "b") for number in range(0, 2**32, 2**21 + 12345)
    )
    with pytest.raises(PatternTooCostly):
        NamePattern("a.{60}.{0,300}[yz]").found_in_all(names)


def test_names_that_contain_a_part() -> None:
    names = SearchableNames(["n1", "rack-n1", "x", "n12"])
    assert list(names.containing("n1")) == ["n1", "n12", "rack-n1"]
    assert list(names.containing("")) == ["n1", "n12", "rack-n1", "x"]
    assert list(SearchableNames([]).containing("")) == []


@settings(max_examples=examples(60))
@given(
    st.recursive(st.sampled_from(ATOMS), _larger, max_leaves=5),
    st.sets(st.text("ab-0", min_size=1, max_size=5), min_size=65, max_size=90),
)
def test_names_that_are_looked_at_together_are_those_that_match(pattern: str, names: set[str]) -> None:
    expected = {name for name in names if re.search(pattern, name, re.ASCII)}
    assert NamePattern(pattern).found_in_all(SearchableNames(names)) == expected
