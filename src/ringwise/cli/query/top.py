"""`ringwise top`: one frame of a cluster, or screens of it that are navigated with keys."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.options import flag, option, query_options
from ringwise.cli.output import stdout_console
from ringwise.cli.query.lists import SECONDS
from ringwise.cli.query.queries import ask, asking, show, source_of

if TYPE_CHECKING:
    from ringwise.apps.sources.protocol import QuerySource
    from ringwise.cli.printers.top import Question

#: Seconds between two looks for keys and answers.
_TICK = 0.05


@click.command("top")
@flag("--once", "Print one frame and exit.")
@option("--interval", "Seconds between frames.  [default: 1; 5 for a cluster]", click.FloatRange(0.1, 3600))
@query_options
def top_command(once: bool, interval: float | None, output: str, **options: Any) -> None:
    """Show chips, queues and pending jobs until Ctrl-C.

    In a terminal, arrow keys select jobs, nodes and queues, Enter describes the selected object, w explains
    why a job is pending, / filters, and q quits.
    """
    if once or options["files"] or output != "table" or not stdout_console().is_terminal:
        document = ask(options, lambda source: source.top())
        show(document, output, "cluster.draw_top")
        return
    _show_screens(interval or SECONDS[source_of(options)], options)


def _show_screens(interval: float, options: dict[str, Any]) -> None:
    from rich.live import Live
    from rich.text import Text

    from ringwise.cli.printers.top import TopScreen

    console, screen = stdout_console(), TopScreen()
    answers: queue.SimpleQueue[tuple[tuple[str, ...], Any]] = queue.SimpleQueue()
    # An error is printed when the screen is gone.
    with (
        suppress(KeyboardInterrupt),
        asking(options, follows=True) as source,
        _typed_keys() as typed,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        query: tuple[str, ...] | None = None
        due, size, size_before = 0.0, (0, 0), (0, 0)
        while not screen.done:
            changed = False
            for key in typed():
                screen.press(key)
                changed = True
            while not answers.empty():
                answered, answer = answers.get()
                if isinstance(answer, Exception) and len(answered) == 1:
                    raise answer
                screen.take(answered, answer)
                query, changed = None, True
            if query is None and (screen.waits or time.monotonic() >= due):
                query, question = screen.question
                due = time.monotonic() + interval
                threading.Thread(target=_answer, args=(answers, query, question, source), daemon=True).start()
            size = (console.width, console.height)
            if changed or size != size_before:
                size_before = size
                lines = screen.lines(*size, colors=not console.no_color)
                live.update(Text("\n").join(lines), refresh=True)
            time.sleep(_TICK)


def _answer(
    answers: queue.SimpleQueue[tuple[tuple[str, ...], Any]],
    key: tuple[str, ...],
    question: Question,
    source: Callable[[], QuerySource],
) -> None:
    try:
        answers.put((key, question(source())))
    except Exception as error:
        # Raised by the thread that shows it.
        answers.put((key, error))


@contextmanager
def _typed_keys() -> Iterator[Callable[[], list[str]]]:
    """Yield a function that returns the keys that were pressed since it was called; it does not wait."""
    if not sys.stdin.isatty():
        yield list
        return
    import select
    import termios
    import tty

    from ringwise.cli.printers.top import keys_of

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def typed() -> list[str]:
        if not select.select([terminal], [], [], 0)[0]:
            return []
        return keys_of(os.read(terminal, 1024).decode(errors="replace"))

    try:
        # Ctrl-C is still a signal.
        tty.setcbreak(terminal)
        yield typed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
