from __future__ import annotations

from ringwise.manifests.settings.boards import shipped_boards
from ringwise.views.boards import ring_picture


def test_every_chip_is_in_the_picture_once() -> None:
    for board in shipped_boards().values():
        words = " ".join(ring_picture(board)).split()
        drawn = sorted(int(word) for word in words if word.isdigit())
        assert drawn == list(range(board.chips_per_node))
