from __future__ import annotations

from pathlib import Path

from ringwise.apps.board_views import ring_picture
from ringwise.apps.reference import boards_page
from ringwise.topology.boards import shipped_boards


def test_the_page_in_the_docs_is_the_one_the_profiles_print() -> None:
    page = Path(__file__).parents[2] / "docs" / "boards.md"
    assert page.read_text(encoding="utf-8") == boards_page()


def test_every_chip_is_in_the_picture_once() -> None:
    for board in shipped_boards().values():
        words = " ".join(ring_picture(board)).split()
        drawn = sorted(int(word) for word in words if word.isdigit())
        assert drawn == list(range(board.chips_per_node))
