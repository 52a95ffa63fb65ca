"""`ringwise bench answers`: what it measures. How long answers take is not asserted."""

from __future__ import annotations

import pytest

from ringwise_bench import answers
from tests.apps.test_forked_queries import no_children


@pytest.mark.full
def test_every_question_is_measured_and_no_copy_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` fails where the gang is not placed."""
    monkeypatch.setattr(answers, "_WINDOW", 0.1)
    monkeypatch.setattr(answers, "_PAIRS", 1)
    results = {one.name: one for one in answers.run(nodes=150, running=20, waiting=4, tried=6, times=1)}
    judged = [one for one in results.values() if one.goal is not None]
    words: tuple[str, ...] = (
        "get jobs",
        "get nodes",
        "top --once",
        "why",
        "estimate",
        "drain --plan",
        "capacity",
    )
    words += ("pods in the server", "table of", "dry run", "doctor", "leaf switch", "defrag")
    words += ("expected starts", "support-bundle")
    for word in words:
        assert any(word in one.name for one in judged), word
    assert results["jobs that move in it"].value > 0
    assert all(one.value > 0 for one in judged)
    assert no_children()
