"""Lines of text that keep to the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from ringwise.cli.printers.folding import line_ends
from ringwise.manifests.text.errors import one_line, printable
from ringwise.reasons import ReasonFields
from ringwise.views.documents.explain import WhyDocument
from ringwise.views.documents.place import PlacedJobFields

STATE_COLORS = {
    "running": "cyan",
    "starting": "cyan",
    "scheduled": "green",
    "pending": "yellow",
    "rejected": "red",
    "suspended": "magenta",
    "finished": "dim",
}
#: How far the rest of a wrapped line is indented, beyond where it began.
_HANG = 2
_FIX = "- "
#: A narrower place than this is not worth wrapping for.
_NARROWEST = 12


class PlainConsole(Console):
    """A console for text of others.

    Names, annotations and messages come from tenants, and the terminal is the operator's: what would control
    it is printed with its number. Colors are not text, and stay.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def print_line(console: Console, line: str | Text, style: str = "") -> None:
    """Print one line of markup; if it is longer than the terminal is wide, it is wrapped and indented."""
    text = Text.from_markup(line) if isinstance(line, str) else line
    for part in wrapped(text, console.width):
        console.print(part, style=style, soft_wrap=True)


def print_lines(console: Console, text: str) -> None:
    """Print plain text of one line or more."""
    for line in text.splitlines():
        print_line(console, Text(line))


def print_state(console: Console, job: PlacedJobFields | WhyDocument) -> None:
    """The name of a job, its class, and its state."""
    words = f" ({job.job_class})" if job.job_class else ""
    color, key = STATE_COLORS[job.state], escape(f"{job.namespace}/{job.name}")
    print_line(console, f"[bold]{key}[/]{words}: [{color}]{job.state}[/]")


def print_reason(
    console: Console, reason: ReasonFields | None, board: str | None = None, style: str = "", fixes: str = ""
) -> None:
    """Why a job or a pod is pending, what its board has to do with it, and the fixes; with their styles."""
    if reason is not None:
        print_line(console, f"  {escape(reason['message'])}", style)
        if board is not None:
            print_line(console, f"  {escape(board)}")
        for fix in reason["fixes"]:
            print_line(console, f"  - {escape(fix)}", fixes)


def wrapped(text: Text, width: int) -> list[Text]:
    """The text in lines of at most this width. It breaks at blanks; only a longer word is cut."""
    text = _in_one_line(text)
    if text.cell_len <= width:
        return [text]
    plain = text.plain
    indent = len(plain) - len(plain.lstrip())
    hang = indent + (len(_FIX) if plain[indent:].startswith(_FIX) else _HANG)
    if width - hang < _NARROWEST:
        indent = hang = 0
    lines = folded(text[len(plain) - len(plain.lstrip()) :], width - hang)
    for number, line in enumerate(lines):
        line.pad_left(hang if number else indent)
    return lines


def folded(text: Text, width: int) -> list[Text]:
    """The text in lines of at most this width, without indentation."""
    text = _in_one_line(text)
    if text.cell_len <= width:
        return [text]
    lines = list(text.divide(line_ends(text.plain, max(1, width))))
    for line in lines:
        line.rstrip()
    return lines


def _in_one_line(text: Text) -> Text:
    """A line break in what a tenant wrote would begin a line that looks like one of ours."""
    return Text(one_line(text.plain), text.style) if "\n" in text.plain else text
