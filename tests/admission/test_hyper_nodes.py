"""HyperNodes at submit: what Volcano's admission allows and refuses, in its words, and what may change."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.apps.admission.rules import ClusterFacts
from ringwise.manifests.settings.boards import shipped_catalog
from tests.admission.reviews import answer, review
from tests.builders.objects import hyper_node

WORLD = ClusterFacts(shipped_catalog())
EXACT = {"exactMatch": {"name": "node-1"}}
REGEX = {"regexMatch": {"pattern": "node-[0-9]+"}}
LABEL = {"labelMatch": {"matchLabels": {"topology-rack": "rack1"}}}


def answered(made: dict[str, Any], operation: str = "CREATE", old: dict[str, Any] | None = None) -> str:
    """Why it is refused; empty: it is allowed."""
    given = answer(review(made, operation, old), WORLD)
    assert given is not None
    response = given["response"]
    assert "warnings" not in response
    return "" if response["allowed"] else str(response["status"]["message"])


#: The cases of Volcano's own suite: what is sent, what it was before, and Volcano's words.
UPSTREAM = {
    "exactMatch": (hyper_node("rack", EXACT), None, ""),
    "regexMatch": (hyper_node("rack", REGEX), None, ""),
    "labelMatch": (hyper_node("rack", LABEL), None, ""),
    "no name": (hyper_node("rack", {"exactMatch": {"name": ""}}), None, "member exactMatch name is required"),
    "no pattern": (
        hyper_node("rack", {"regexMatch": {"pattern": ""}}),
        None,
        "member regexMatch pattern is required",
    ),
    "no expression": (
        hyper_node("rack", {"regexMatch": {"pattern": "a(b"}}),
        None,
        "member regexMatch pattern is invalid",
    ),
    "two selectors": (
        hyper_node("rack", {**EXACT, **REGEX}),
        None,
        "cannot specify more than one selector type",
    ),
    "two others": (
        hyper_node("rack", {**EXACT, **LABEL}),
        None,
        "cannot specify more than one selector type",
    ),
    "no selector": (
        hyper_node("rack", {}),
        None,
        "member selector must have one of exactMatch, regexMatch, or labelMatch",
    ),
    "no members": (hyper_node("rack"), None, "member must have at least one member"),
    "no DNS name": (
        hyper_node("rack", {"exactMatch": {"name": "Node_with_invalid@characters"}}),
        None,
        "member exactMatch validate failed",
    ),
    "valid change": (hyper_node("rack", REGEX), hyper_node("rack", EXACT), ""),
    "invalid change": (hyper_node("rack"), hyper_node("rack", EXACT), "member must have at least one member"),
}


@pytest.mark.parametrize("name", UPSTREAM)
def test_what_volcano_allows_and_refuses_in_its_words(name: str) -> None:
    made, old, words = UPSTREAM[name]
    told = answered(made, "CREATE" if old is None else "UPDATE", old)
    assert words in told
    assert bool(told) == bool(words)
    assert not words or told.startswith("HyperNode rack: spec.members")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            hyper_node("rack", EXACT, tier=-1),
            "spec.tier: Invalid value: -1: must be at least 0",
        ),
        (
            hyper_node("rack", *[EXACT] * 16_385),
            "spec.members: has 16,385 members; at most 16,384 are allowed",
        ),
        (hyper_node("rack", {"regexMatch": {"pattern": "a" * 513}}), "at most 512 are allowed"),
        (
            hyper_node("rack", {"exactMatch": {"name": "a..b"}}),
            'invalid name "a..b": must be at most 253 lower-case letters',
        ),
        (hyper_node("rack", {"exactMatch": {"name": "a" * 254}}), "(254 characters): must be at most 253"),
        (hyper_node("rack", {"exactMatch": {"name": "a\n"}}), 'invalid name "a\\n"'),
        (
            hyper_node("rack", members=[{"type": "Rack", "selector": EXACT}]),
            'Invalid value: "Rack": must be one of Node, HyperNode',
        ),
        (hyper_node("rack", EXACT, {}), "spec.members[1].selector: member selector must have one of"),
    ],
)
def test_what_else_cannot_be_used(made: dict[str, Any], message: str) -> None:
    assert message in answered(made)


def test_every_error_is_told_at_once() -> None:
    told = answered(hyper_node("rack", {"exactMatch": {"name": "A"}}, {"regexMatch": {"pattern": "("}}))
    assert "spec.members[0].selector.exactMatch.name" in told
    assert "; also: " in told
    assert "spec.members[1].selector.regexMatch.pattern" in told


def test_one_that_is_wrong_already_can_be_changed_labeled_and_deleted() -> None:
    wrong = hyper_node("rack", {"regexMatch": {"pattern": "("}})
    labeled = {**wrong, "metadata": {"name": "rack", "labels": {"a": "b"}}}
    assert answered(labeled, "UPDATE", wrong) == ""
    assert answered(hyper_node("rack"), "UPDATE", wrong) == ""
    going = {**hyper_node("rack"), "metadata": {"name": "rack", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert answered(going, "UPDATE", hyper_node("rack", EXACT)) == ""


def test_an_expression_that_is_slow_elsewhere_is_judged_at_once() -> None:
    assert answered(hyper_node("rack", {"regexMatch": {"pattern": "(a+)+$"}})) == ""
    assert "invalid" in answered(hyper_node("rack", {"regexMatch": {"pattern": "(" * 400}}))
