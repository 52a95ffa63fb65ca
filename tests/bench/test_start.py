"""`ringwise bench start`: the commands are started and compared; how long they take is not asserted."""

from __future__ import annotations

import os

import pytest

from ringwise_bench import start


@pytest.mark.full
@pytest.mark.process
def test_every_command_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "ROUNDS", 1)
    results = start.run()
    assert [(result.name, result.goal) for result in results if result.goal is not None] == [
        ("ringwise --help", "<= 2.5"),
        ("ringwise place on one small file", "<= 4"),
        ("ringwise run scheduler until it decides on an empty cluster", "<= 5"),
    ]
    assert all(result.value > 0 for result in results)


def test_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(start.StartFailedError, match="No such option"):
        start._until_exit([start._MAIN, "--nonsense"], dict(os.environ))
