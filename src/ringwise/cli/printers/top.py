"""The screens of `ringwise top`: lists and details of a cluster that are navigated with keys."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ringwise.cli.printers.cluster import draw_top, headline
from ringwise.cli.printers.explain import print_explanation
from ringwise.cli.printers.kinds import DRAWINGS, print_object
from ringwise.cli.printers.lines import PlainConsole, print_line
from ringwise.views.kinds import BY_NAME

if TYPE_CHECKING:
    from rich.console import Console

#: Asks the source that it is called with.
Question = Callable[[Any], Any]

#: What terminals send for keys that are not characters.
_KEYS = {
    **dict.fromkeys(("\x1b[A", "\x1bOA"), "up"),
    **dict.fromkeys(("\x1b[B", "\x1bOB"), "down"),
    **dict.fromkeys(("\x1b[C", "\x1bOC", "\t"), "right"),
    **dict.fromkeys(("\x1b[D", "\x1bOD", "\x1b[Z"), "left"),
    **dict.fromkeys(("\r", "\n"), "enter"),
    **dict.fromkeys(("\x7f", "\x08"), "backspace"),
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b": "escape",
}
_ONE_KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_OVERVIEW = "overview"
_SCREENS = (_OVERVIEW, "job", "node", "queue")
_STEPS = {"up": -1, "down": 1}


def keys_of(typed: str) -> list[str]:
    """Return the names of the keys that sent these characters."""
    return [_KEYS.get(key, key) for key in _ONE_KEY.findall(typed)]


class TopScreen:
    """What is shown, and how keys change it. It asks nothing: `question` says what to ask next."""

    def __init__(self) -> None:
        self.kind = _OVERVIEW
        self.done = False
        #: describe or why of the selected object; empty: the list.
        self.detail = ""
        self.filter = ""
        self._types = False
        self._selected = 0
        self._first = 0
        self._scroll = 0
        self._page = 10
        #: The last answers, by what was asked.
        self._answers: dict[tuple[str, ...], Any] = {}

    @property
    def _key(self) -> tuple[str, ...]:
        return (self.detail, self.kind, self._name) if self.detail else (self.kind,)

    @property
    def question(self) -> tuple[tuple[str, ...], Question]:
        """The key of the answer, and the question for it."""
        kind, name, detail = self.kind, self._name, self.detail
        if detail == "why":
            return self._key, lambda source: source.why(name)
        if detail:
            return self._key, lambda source: source.describe(kind, name)
        if kind == _OVERVIEW:
            return self._key, lambda source: source.top()
        return self._key, lambda source: source.get(BY_NAME[kind].plural)

    @property
    def waits(self) -> bool:
        """Whether there is nothing to show yet."""
        return self._key not in self._answers

    def take(self, key: tuple[str, ...], answer: Any) -> None:
        """Keep the answer of a list, and of a detail while it is shown."""
        if len(key) == 1 or key == self._key:
            self._answers[key] = answer

    @property
    def rows(self) -> list[Any]:
        """The rows that the filter lets through."""
        if self.kind == _OVERVIEW or (self.kind,) not in self._answers:
            return []
        kind, word = BY_NAME[self.kind], self.filter.lower()
        rows = self._answers[self.kind,][kind.plural]
        return [row for row in rows if word in f"{kind.key(row)} {' '.join(kind.states_of(row))}".lower()]

    @property
    def _name(self) -> str:
        rows = self.rows
        return BY_NAME[self.kind].key(rows[min(self._selected, len(rows) - 1)]) if rows else ""

    # -- keys

    def press(self, key: str) -> None:
        if self._types:
            self._type(key)
        elif key == "q":
            self.done = True
        elif self.detail:
            self._press_in_detail(key)
        elif key in ("left", "right"):
            step = 1 if key == "right" else -1
            self._open(_SCREENS[(_SCREENS.index(self.kind) + step) % len(_SCREENS)])
        elif self.kind == _OVERVIEW:
            if key in ("down", "enter", "/"):
                self._open("job")
                self._types = key == "/"
        elif key in _STEPS or key.startswith("page"):
            self._selected = max(0, min(self._selected + self._step(key), len(self.rows) - 1))
        elif key == "/":
            self._types = True
        elif key == "escape":
            self._open(self.kind if self.filter else _OVERVIEW)
        elif self._name and (key == "enter" or (key == "w" and self.kind == "job")):
            self.detail, self._scroll = ("why" if key == "w" else "describe"), 0

    def _step(self, key: str) -> int:
        return _STEPS.get(key) or (self._page if key == "page down" else -self._page)

    def _open(self, kind: str) -> None:
        self.kind, self.filter, self._selected, self._first = kind, "", 0, 0

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self._types = False
            self.filter = self.filter if key == "enter" else ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key
        self._selected = self._first = 0

    def _press_in_detail(self, key: str) -> None:
        if key in ("escape", "left", "backspace"):
            self._answers.pop(self._key, None)
            self.detail = ""
        elif key in _STEPS or key.startswith("page"):
            self._scroll = max(0, self._scroll + self._step(key))
        elif key == "w" and self.kind == "job":
            self.detail, self._scroll = "why", 0

    # -- the frame

    def lines(self, width: int, height: int, *, colors: bool = True) -> list[Text]:
        """The frame of a terminal of this size."""
        self._page = max(1, height - 4)
        if self.waits:
            body = [Text("reading ...", "dim")]
        elif self.detail:
            body = self._detail_lines(width, height - 1, colors)
        elif self.kind == _OVERVIEW:
            answer = self._answers[self.kind,]
            body = _drawn(lambda console: draw_top(console, answer, height - 1), width, colors)
        else:
            body = self._list_lines(width, height - 1, colors)
        body = body[: height - 1]
        return [*body, *[Text("")] * (height - 1 - len(body)), self._help(width)]

    def _help(self, width: int) -> Text:
        if self._types:
            return Text(f"/{self.filter}█", no_wrap=True)
        if self.detail:
            words = "esc back   ↑↓ scroll   " + ("w why   " if self.kind == "job" else "")
        elif self.kind == _OVERVIEW:
            words = "←→ jobs, nodes, queues   ↓ select   / filter   "
        else:
            words = "↑↓ select   ⏎ describe   " + ("w why   " if self.kind == "job" else "")
            words += "/ filter   ←→ other lists   esc overview   "
        return Text(f"{words}q quit"[:width], "reverse")

    def _detail_lines(self, width: int, height: int, colors: bool) -> list[Text]:
        answer, kind = self._answers[self._key], self.kind

        def draw(console: Console) -> None:
            if isinstance(answer, Exception):
                print_line(console, Text(str(answer), "red"))
            elif self.detail == "why":
                print_explanation(console, answer)
            else:
                print_object(console, answer, kind)

        lines = _drawn(draw, width, colors)
        self._scroll = max(0, min(self._scroll, len(lines) - height))
        return lines[self._scroll :]

    def _list_lines(self, width: int, height: int, colors: bool) -> list[Text]:
        rows, kind = self.rows, BY_NAME[self.kind]
        answer = self._answers[self.kind,]
        title = f"[bold]{kind.plural}[/]  {len(rows)} of {len(answer[kind.plural])}"
        top = [Text.from_markup(title)]
        if self.filter:
            top[0].append(f"   /{self.filter}")
        if (overview := self._answers.get((_OVERVIEW,))) is not None:
            top = [
                *_drawn(lambda console: print_line(console, headline(overview["status"])), width, colors),
                *top,
            ]
        if not rows:
            return [*top, Text(f"no {kind.plural} match" if self.filter else f"there are no {kind.plural}")]
        self._selected = min(self._selected, len(rows) - 1)
        room = max(3, height - len(top))
        self._first = min(self._first, self._selected)
        self._first = max(self._first, self._selected - room + 1)
        while True:
            shown = rows[self._first : self._first + room]
            draw = partial(DRAWINGS[kind.name].table.draw, rows=shown, now=answer.get("now", 0))
            lines = _drawn(draw, width, colors)
            begin, end = _place_of(lines, [kind.key(row) for row in shown], self._selected - self._first)
            if end <= room or self._first == self._selected:
                break
            self._first += 1
        for line in lines[begin:end]:
            line.stylize("reverse")
        return [*top, *lines]


def _place_of(lines: Sequence[Text], keys: Sequence[str], selected: int) -> tuple[int, int]:
    """The lines of a row of a table: each row begins with its key."""
    starts: list[int] = []
    for number, line in enumerate(lines):
        if len(starts) < len(keys) and f"{line.plain} ".startswith(f"{keys[len(starts)]} "):
            starts.append(number)
    ends = [*starts[1:], len(lines)]
    return (starts[selected], ends[selected]) if selected < len(starts) else (0, 0)


def _drawn(draw: Callable[[Console], object], width: int, colors: bool) -> list[Text]:
    """What a printer prints, as lines."""
    drawn = io.StringIO()
    console = PlainConsole(
        file=drawn,
        width=width,
        force_terminal=True,
        color_system="standard" if colors else None,
        highlight=False,
    )
    draw(console)
    text = Text.from_ansi(drawn.getvalue().rstrip("\n"))
    text.no_wrap = True
    return list(text.split("\n", allow_blank=True))
