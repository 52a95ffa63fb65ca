"""Tables without borders that can be read at any width.

Names and pictures of chips are never cut. Where a table is wider than the terminal, its parts give way in
this order: a sentence at the end of a row gets lines of its own below it; the columns that may wrap do; the
columns that may be moved are listed below the row; long names get a line of their own; and in a very narrow
terminal every cell does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, Self

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from ringwise.cli.printers.folding import words
from ringwise.cli.printers.lines import folded, wrapped
from ringwise.records import dataclass

Cell = str | Text
#: A line in pieces, each with its style: of most rows, for which a `Text` would cost more than all else.
Pieces = list[tuple[str, str]]

_NARROW_GAP = 2
#: No column that wraps, and no column of names, is narrower than this.
_NARROWEST = 12
#: Sentences in a narrower column than this would be hard to read.
_NARROWEST_NOTE = 40
#: How far the lines below a row are indented.
_BELOW = 4


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, its cells, and what may happen to it where there is little width."""

    name: str
    #: The field of a row (`-` if it is empty), or what makes the cell of the row.
    cell: str | Callable[..., Cell] = ""
    right: bool = False
    #: Its cells may break their lines at blanks.
    wraps: bool = False
    #: It may be listed below the row.
    moves: bool = False
    #: It is left out if all its cells are empty.
    optional: bool = False
    #: Only `-o wide` has it.
    wide: bool = False

    def of(self, row: Any, *context: Any) -> Cell:
        if callable(self.cell):
            return self.cell(row, *context)
        value = row[self.cell] if isinstance(row, dict) else getattr(row, self.cell)
        return "-" if value is None or value == "" else str(value)


@dataclass(slots=True)
class _Row:
    cells: list[Cell]
    note: Cell = ""
    #: Of the cells; a row is simple if each of them is (`_simple_width`).
    widths: list[int] = field(init=False)
    is_simple: bool = field(init=False)

    def __post_init__(self) -> None:
        widths = [_simple_width(cell) for cell in self.cells]
        self.is_simple = None not in widths
        self.widths = [
            _text(cell).cell_len if width is None else width
            for cell, width in zip(self.cells, widths, strict=True)
        ]


@dataclass(slots=True)
class _Layout:
    #: Columns that are drawn as columns, with their widths.
    shown: list[int]
    widths: dict[int, int]
    gap: int
    #: Width of the column of sentences; 0: they are below their rows.
    note: int = 0
    #: Names longer than the first column get a line of their own.
    own_line: bool = False

    @property
    def width(self) -> int:
        columns = [self.widths[number] for number in self.shown] + ([self.note] if self.note else [])
        return sum(columns) + self.gap * (len(columns) - 1)


@dataclass(slots=True)
class Table:
    """Rows under headings. The first column has the names; `note` heads a sentence at the end of a row."""

    columns: Sequence[Column]
    note: str = ""
    indent: int = 0
    #: Blanks between the columns where there is width for them.
    gap: int = 3
    headings: bool = True
    rows: list[_Row] = field(default_factory=list)
    #: The headings of the columns that were drawn last.
    heads: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        columns: Sequence[Column],
        rows: Sequence[Any],
        *context: Any,
        note: str = "",
        notes: Callable[..., Cell] = lambda *row: "",
        hidden: int = 0,
        **layout: Any,
    ) -> Self:
        """The table of these rows. Cells and sentences are made of a row and the context.

        `hidden`: number of rows before the last one that are left out.
        """
        cells = [[column.of(row, *context) for row in rows] for column in columns]
        shown = [
            number
            for number, column in enumerate(columns)
            if not column.optional or any(str(cell) not in ("", "-") for cell in cells[number])
        ]
        table = cls([columns[number] for number in shown], note, **layout)
        for at, row in enumerate(rows):
            if hidden and row is rows[-1]:
                table.add(f"... {hidden} more")
            table.add(*(cells[number][at] for number in shown), note=notes(row, *context))
        return table

    def add(self, *cells: Cell, note: Cell = "") -> None:
        """A row; plain strings are not markup. Cells that are missing are empty."""
        self.rows.append(_Row([*cells, *[""] * (len(self.columns) - len(cells))], note))

    def print(
        self, console: Console, only: Collection[int] | None = None, heads: tuple[str, ...] = ()
    ) -> None:
        """`only`: these rows, under headings if they are not `heads`, which stand above."""
        # At once: to print a line costs ten times as much as to lay it out.
        console.print(_Lines(self._lines(console.width, only, heads)), soft_wrap=True, end="")

    def lines(self, width: int, only: Collection[int] | None = None) -> list[Text]:
        """The table as lines of at most this width. `only`: these rows, as they stand in the whole table."""
        lines = self._lines(width, only)
        return [line if isinstance(line, Text) else Text.assemble(*line) for line in lines]

    def _lines(
        self, width: int, only: Collection[int] | None, heads: tuple[str, ...] = ()
    ) -> Iterator[Text | Pieces]:
        inside = width - self.indent
        layout = self._layout(inside)
        rows = self.rows if only is None else [row for n, row in enumerate(self.rows) if n in only]
        lines: Iterator[Text | Pieces]
        if layout is None:
            lines = self._stacked(inside, rows)
        else:
            self.heads = (*(self.columns[n].name for n in layout.shown), self.note if layout.note else "")
            headed = only is None or (bool(heads) and heads != self.heads)
            lines = self._drawn(layout, inside, rows, whole=only is None, headed=headed)
        for line in lines:
            if isinstance(line, Text):
                line.rstrip()
                line.pad_left(self.indent)
            elif self.indent:
                line.insert(0, (" " * self.indent, ""))
            yield line

    # -- the layout ------------------------------------------------------------------------------

    def _layout(self, width: int) -> _Layout | None:
        """The first layout that fits, in the order of the module's docstring; None: no columns at all."""
        every = list(range(len(self.columns)))
        natural = {number: self._natural(number) for number in every}
        note = max((_width(row.note) for row in self.rows), default=0)
        note = max(note, len(self.note)) if note else 0
        for gap in (self.gap, _NARROW_GAP):
            layout = _Layout(every, dict(natural), gap, note)
            if layout.width <= width:
                return layout
        for gap in (self.gap, _NARROW_GAP):
            layout = _Layout(every, dict(natural), gap)
            left = width - layout.width - gap
            if note and left >= _NARROWEST_NOTE:
                layout.note = left
            if layout.width <= width:
                return layout
        gap = _NARROW_GAP
        layout = _Layout(every, self._narrowed(every, natural, gap, width), gap)
        if layout.width <= width:
            return layout
        # Columns with one value for all rows first, then from the right.
        movable = [number for number in reversed(every) if self.columns[number].moves]
        movable.sort(key=lambda number: not self._same_everywhere(number))
        choices = [[n for n in every if n not in movable[:count]] for count in range(len(movable) + 1)]
        for shown in choices[1:]:
            layout = _Layout(shown, self._narrowed(shown, natural, gap, width), gap)
            if layout.width <= width:
                return layout
        # The first layout in which most names fit beside their cells, else the first that is possible.
        names = sorted(row.widths[0] for row in self.rows)
        for least in (max(_NARROWEST, names[len(names) // 2]), _NARROWEST) if names else ():
            for shown in choices:
                widths = self._narrowed(shown, natural, gap, width)
                layout = _Layout(shown, widths, gap, own_line=True)
                most = width - (layout.width - widths[0])
                if most >= least:
                    fitting = [length for length in names if length <= most]
                    widths[0] = min(most, max([_NARROWEST, len(self.columns[0].name), *fitting]))
                    return layout
        return None

    def _natural(self, number: int) -> int:
        cells = max((row.widths[number] for row in self.rows), default=0)
        return max(cells, len(self.columns[number].name) if self.headings else 0)

    def _narrowed(self, shown: list[int], natural: dict[int, int], gap: int, width: int) -> dict[int, int]:
        """The widths with the columns that wrap as narrow as is needed, the widest first."""
        widths = {number: natural[number] for number in shown}
        wrapping = [number for number in shown if self.columns[number].wraps]
        excess = sum(widths.values()) + gap * (len(shown) - 1) - width
        for number in sorted(wrapping, key=lambda number: -widths[number]):
            if excess <= 0:
                break
            cells = [self.columns[number].name, *(row.cells[number] for row in self.rows)]
            least = min(widths[number], max(_NARROWEST, *map(_longest_word, cells)))
            reduction = min(excess, widths[number] - least)
            widths[number] -= reduction
            excess -= reduction
        return widths

    # -- the lines -------------------------------------------------------------------------------

    def _drawn(
        self, layout: _Layout, width: int, rows: Sequence[_Row], *, whole: bool, headed: bool
    ) -> Iterator[Text | Pieces]:
        moved = [number for number in range(len(self.columns)) if number not in layout.shown]
        same = [number for number in moved if self._same_everywhere(number)]
        if self.headings and headed:
            names: list[Cell] = [Text(column.name, "bold") for column in self.columns]
            yield from self._row(layout, _Row(names, Text(self.note, "bold")), width)
            yield Text("─" * layout.width)
        listed = [number for number in moved if number not in same]
        for row in rows:
            yield from self._simple_row(layout, row) or self._row(layout, row, width)
            for text in (listed and self._words(row, listed), not layout.note and row.note):
                if text:
                    yield from wrapped(Text.assemble(" " * _BELOW, text), width)
        said = [number for number in same if str(self.rows[0].cells[number]) != "-"]
        if whole and said and (words := self._words(self.rows[0], said)):
            yield from wrapped(Text(f"all: {words}", "dim"), width)

    def _simple_row(self, layout: _Layout, row: _Row) -> list[Pieces]:
        """The lines of a row whose cells fit in their columns; none of another row."""
        if not row.is_simple:
            return []
        pieces: Pieces = []
        #: What stands after the last piece: cells without a style, and blanks.
        text, gap = "", ""
        for number in layout.shown:
            cell, left = row.cells[number], layout.widths[number] - row.widths[number]
            if left < 0:
                return []
            blanks = " " * left
            before, after = (blanks, "") if self.columns[number].right else ("", blanks)
            if style := _style(cell):
                pieces += [(f"{text}{gap}{before}", ""), (str(cell), style)]
                text = after
            else:
                text = f"{text}{gap}{before}{cell}{after}"
            gap = " " * layout.gap
        pieces.append((text, ""))
        if not layout.note or not row.note:
            return [_stripped(pieces)]
        if _simple_width(row.note) is None:
            return []
        first, *others = folded(_text(row.note), layout.note)
        style, blanks = _style(row.note), " " * (layout.width - layout.note)
        lines = [[*pieces, (gap, ""), (first.plain, style)]]
        lines += [[(blanks, ""), (line.plain, style)] for line in others]
        return list(map(_stripped, lines))

    def _row(self, layout: _Layout, row: _Row, width: int) -> Iterator[Text]:
        cells = {number: _text(row.cells[number]) for number in layout.shown}
        if layout.own_line and cells[0].cell_len > layout.widths[0]:
            yield from wrapped(cells[0].copy(), width)
            cells[0] = Text("")
        parts = {number: folded(cell, layout.widths[number]) for number, cell in cells.items()}
        notes = folded(_text(row.note), layout.note) if layout.note else []
        for line in range(max(len(notes), *map(len, parts.values()))):
            drawn = Text()
            for number in layout.shown:
                cell = parts[number][line] if line < len(parts[number]) else Text("")
                blanks = " " * (layout.widths[number] - cell.cell_len)
                drawn.append(" " * layout.gap if number != layout.shown[0] else "")
                drawn.append_text(
                    Text.assemble(blanks, cell) if self.columns[number].right else Text.assemble(cell, blanks)
                )
            if line < len(notes):
                drawn.append(" " * layout.gap).append_text(notes[line])
            yield drawn

    def _words(self, row: _Row, numbers: Sequence[int]) -> str:
        """Cells that have no column of their own: `board 910-x8, switch 10.0.0.1`"""
        cells = [(self.columns[number].name, str(row.cells[number])) for number in numbers]
        return ", ".join(f"{name} {text}" for name, text in cells if text)

    def _same_everywhere(self, number: int) -> bool:
        # A row of its name alone says how many others there are.
        rows = [row for row in self.rows if any(row.cells[1:])]
        return len(rows) > 1 and len({str(row.cells[number]) for row in rows}) == 1

    def _stacked(self, width: int, rows: Sequence[_Row]) -> Iterator[Text | Pieces]:
        for row in rows:
            yield from wrapped(_text(row.cells[0]).copy(), width)
            for column, cell in zip(self.columns[1:], row.cells[1:], strict=True):
                if cell:
                    yield from wrapped(Text.assemble(f"  {column.name} ", cell), width)
            if row.note:
                yield from wrapped(Text.assemble("  ", row.note), width)


@dataclass(frozen=True, slots=True)
class KindTable:
    """How the objects of a kind are drawn, wherever they are listed. Cells are made of a row and the time."""

    columns: Sequence[Column]
    #: The heading of the sentences at the end of rows.
    note: Callable[[Sequence[Any]], str] = lambda rows: ""
    notes: Callable[[Any, int], str] = lambda row, now: ""
    #: What follows the table.
    remarks: Callable[[Console, Sequence[Any], int], None] = lambda console, rows, now: None

    def draw(
        self,
        console: Console,
        rows: Sequence[Any],
        now: int = 0,
        only: Collection[int] | None = None,
        *,
        wide: bool = False,
        heads: tuple[str, ...] = (),
        headings: bool = True,
    ) -> tuple[str, ...]:
        """Return the headings of the columns. Without `headings`, only rows are drawn.

        `only`: numbers of the rows that are drawn, as they stand in the whole table; they have headings if
        these are not `heads`, which stand above them.
        """
        columns = [column for column in self.columns if wide or not column.wide]
        table = Table.of(columns, rows, now, note=self.note(rows), notes=self.notes, headings=headings)
        table.print(console, only, heads)
        if only is None and headings:
            self.remarks(console, rows, now)
        return table.heads


class _Lines:
    """All lines of a table, printed by one call."""

    def __init__(self, lines: Iterable[Text | Pieces]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        end = Segment.line()
        styles: dict[str, Style | None] = {"": None}
        for line in self._lines:
            if isinstance(line, Text):
                yield line
                continue
            for plain, style in line:
                if style not in styles:
                    styles[style] = console.get_style(style)
                yield Segment(plain, styles[style])
            yield end


def _text(cell: Cell) -> Text:
    return Text(cell) if isinstance(cell, str) else cell


def _width(cell: Cell) -> int:
    width = _simple_width(cell)
    return _text(cell).cell_len if width is None else width


def _simple_width(cell: Cell) -> int | None:
    """The width of a cell in one style without line breaks and control characters; None for another cell."""
    if isinstance(cell, str):
        if not cell.isprintable():
            return None
        return len(cell) if cell.isascii() else cell_len(cell)
    return None if cell.spans else _simple_width(cell.plain)


def _style(cell: Cell) -> str:
    return "" if isinstance(cell, str) else str(cell.style)


def _stripped(pieces: Pieces) -> Pieces:
    while pieces and not pieces[-1][0].rstrip():
        pieces.pop()
    if pieces:
        pieces[-1] = (pieces[-1][0].rstrip(), pieces[-1][1])
    return pieces


def _longest_word(cell: Cell) -> int:
    return max(map(len, words(str(cell))), default=0)
