"""The log of a component."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from ringwise import log
from ringwise.log import Logger


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    written = io.StringIO()
    log.configure(written)
    yield written
    log.configure(level=log.WARNING)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_event_level_time_and_fields(stream: io.StringIO) -> None:
    Logger().info("bound", pod="default/träin", chips=(0, 1))
    (line,) = lines(stream)
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {"event": "bound", "level": "info", "pod": "default/träin", "chips": [0, 1]}
    assert "träin" in stream.getvalue()


def test_values_that_json_does_not_know_are_written_all_the_same(stream: io.StringIO) -> None:
    Logger().warning("odd", value={1, 2}.__class__)
    assert lines(stream)[0]["value"] == "<class 'set'>"


def test_errors_have_their_traceback(stream: io.StringIO) -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        Logger().exception("failed")
        Logger().error("failed", error=error)
    for line in lines(stream):
        assert line["level"] == "error"
        assert str(line["exception"]).endswith("ValueError: no")


@pytest.mark.parametrize(
    ("level", "written"),
    [
        (log.DEBUG, ["debug", "info", "warning", "error"]),
        (log.WARNING, ["warning", "error"]),
        (log.CRITICAL, []),
    ],
)
def test_levels(stream: io.StringIO, level: str, written: list[str]) -> None:
    log.configure(stream, level)
    logger = Logger()
    for write in (logger.debug, logger.info, logger.warning, logger.error):
        write("x")
    assert [line["level"] for line in lines(stream)] == written


def test_without_configuration_warnings_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure(level=log.WARNING)
    Logger().info("quiet")
    Logger().warning("heard")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["event"] == "heard"
