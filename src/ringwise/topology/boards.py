"""The catalogue of boards (rule N1): those shipped and those a user adds by file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from ringwise.topology.board import Board, BoardError
from ringwise.topology.board_files import load_board
from ringwise.topology.natural import natural_key

__all__ = ["Board", "BoardCatalog", "BoardError", "load_board", "shipped_boards", "shipped_catalog"]

_PROFILES = Path(__file__).parent / "profiles"


@cache
def shipped_boards() -> dict[str, Board]:
    """Every board in the package, by name, in natural order. Read once."""
    boards = [load_board(path) for path in _PROFILES.glob("*.toml")]
    boards.sort(key=lambda board: natural_key(board.name))
    return {board.name: board for board in boards}


class BoardCatalog:
    """Boards by name, policy and accelerator type. Two boards with the same policy or type are an error."""

    def __init__(self, boards: Iterable[Board] = ()) -> None:
        self._boards: dict[str, Board] = {}
        self._origin: dict[str, str] = {}
        self._by_policy: dict[str, Board] = {}
        self._by_type: dict[str, Board] = {}
        for board in boards:
            self.add(board, f"{board.name}.toml")

    def add(self, board: Board, file: str) -> None:
        """Add a board; raises BoardError where a field repeats a value of another board."""
        self._check(board, file)
        self._boards[board.name] = board
        self._origin[board.name] = file
        self._by_policy.update(dict.fromkeys(board.policies, board))
        self._by_type.update(dict.fromkeys(board.accelerator_types, board))

    def add_file(self, path: Path | str) -> Board:
        board = load_board(path)
        self.add(board, str(path))
        return board

    def _check(self, board: Board, file: str) -> None:
        if board.name in self._boards:
            raise BoardError(
                file, "name", f"'{board.name}' is already the name of {self._origin[board.name]}"
            )
        for field, values, taken in (
            ("policies", board.policies, self._by_policy),
            ("accelerator_types", board.accelerator_types, self._by_type),
        ):
            for value in values:
                if value in taken:
                    raise BoardError(file, field, f"'{value}' already chooses the board {taken[value].name}")
        for other in self._boards.values():
            if not set(board.resources) & set(other.resources):
                continue
            if board.fallback != "never" and other.fallback != "never":
                raise BoardError(file, "fallback", f"{other.name} is already the fallback of this resource")
            if board.job_labels and board.job_labels == other.job_labels:
                raise BoardError(file, "job_labels", f"the same labels already choose the board {other.name}")
            if board.sp_block_fallback and other.sp_block_fallback:
                raise BoardError(
                    file, "sp_block_fallback", f"sp-block already chooses the board {other.name}"
                )

    @property
    def resources(self) -> tuple[str, ...]:
        return tuple(sorted({resource for board in self for resource in board.resources}))

    def serving(self, resource: str) -> tuple[Board, ...]:
        return tuple(board for board in self if resource in board.resources)

    def origin(self, name: str) -> str:
        return self._origin[name]

    def get(self, name: str) -> Board | None:
        return self._boards.get(name)

    def __getitem__(self, name: str) -> Board:
        return self._boards[name]

    def __iter__(self) -> Iterator[Board]:
        return iter(self._boards.values())

    def __len__(self) -> int:
        return len(self._boards)

    def __contains__(self, name: object) -> bool:
        return name in self._boards


def shipped_catalog(files: Iterable[Path | str] = ()) -> BoardCatalog:
    """The shipped boards and those in the given files. Raises BoardError with the problems of all files."""
    catalog = BoardCatalog(shipped_boards().values())
    problems: list[BoardError] = []
    for file in files:
        try:
            catalog.add_file(file)
        except BoardError as error:
            problems.append(error)
    if problems:
        raise BoardError.of(problems)
    return catalog
