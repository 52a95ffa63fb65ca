"""The catalog of boards (N1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ringwise.topology.board import Board


class BoardError(ValueError):
    """A board that repeats a value of another one: the field, and why."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


class BoardCatalog:
    """Boards by name, policy and accelerator type. Two boards with the same policy or type are an error."""

    def __init__(self, boards: Iterable[Board] = ()) -> None:
        self._boards: dict[str, Board] = {}
        self._by_policy: dict[str, Board] = {}
        self._by_type: dict[str, Board] = {}
        for board in boards:
            self.add(board)

    def add(self, board: Board) -> None:
        """Raises BoardError if a field repeats a value of another board."""
        self._check(board)
        self._boards[board.name] = board
        self._by_policy.update(dict.fromkeys(board.policies, board))
        self._by_type.update(dict.fromkeys(board.accelerator_types, board))

    def _check(self, board: Board) -> None:
        if board.name in self._boards:
            raise BoardError("name", f'"{board.name}" is already the name of a board')
        for field, values, taken in (
            ("policies", board.policies, self._by_policy),
            ("accelerator_types", board.accelerator_types, self._by_type),
        ):
            for value in values:
                if value in taken:
                    raise BoardError(field, f'"{value}" already selects the board {taken[value].name}')
        for other in self._boards.values():
            if not set(board.resources) & set(other.resources):
                continue
            if board.fallback != "never" and other.fallback != "never":
                raise BoardError("fallback", f"{other.name} is already the fallback of this resource")
            if board.job_labels and board.job_labels == other.job_labels:
                raise BoardError("job_labels", f"the same labels already select the board {other.name}")
            if board.sp_block_fallback and other.sp_block_fallback:
                raise BoardError("sp_block_fallback", f"sp-block already selects the board {other.name}")

    @property
    def resources(self) -> tuple[str, ...]:
        return tuple(sorted({resource for board in self for resource in board.resources}))

    def serving(self, resource: str) -> tuple[Board, ...]:
        return tuple(board for board in self if resource in board.resources)

    def get(self, name: str) -> Board | None:
        return self._boards.get(name)

    def __getitem__(self, name: str) -> Board:
        return self._boards[name]

    def __iter__(self) -> Iterator[Board]:
        return iter(self._boards.values())

    def __len__(self) -> int:
        return len(self._boards)
