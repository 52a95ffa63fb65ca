"""Pictures of SuperPoDs."""

from __future__ import annotations

from ringwise.cli.printers.superpods import draw_superpods
from tests.cli.superpods import superpod


def test_free_reserved_and_blocks_by_job() -> None:
    picture = draw_superpods(
        [
            superpod(10, free=5, reserve=2, busy=2, unusable=1),
            superpod(
                9,
                free=1,
                reserve=2,
                blocks=(("train", 1, 3), ("train", 0, 3), ("serve", 0, 2)),
            ),
        ]
    )
    assert picture.plain.splitlines() == [
        "SuperPoD 9   |AA|BBB|BBB|~|  1 free, 1 of them reserved; serve: block 0; train: blocks 0-1",
        "SuperPoD 10  |##x...~~|      5 free, 2 of them reserved",
        "one symbol per node: A serve, B train, # other pods, x unusable, . free, ~ reserved",
    ]


def test_a_picture_without_anything() -> None:
    assert draw_superpods([]).plain == "no SuperPoDs"


def test_superpods_with_blocks_are_shown_before_others() -> None:
    many = [superpod(number, free=4) for number in range(100)]
    many[70] = superpod(70, free=0, blocks=(("train", 5, 4), ("train", 7, 4)))
    lines = draw_superpods(many, most=3).plain.splitlines()
    assert [line.split("  ")[0] for line in lines[:3]] == ["SuperPoD 0", "SuperPoD 1", "SuperPoD 70"]
    assert lines[2].endswith("0 free; train: blocks 5, 7")
    assert lines[3] == "and 97 more SuperPoDs with 388 free nodes"


def test_every_node_is_one_sign() -> None:
    drawn = superpod(0, free=7, reserve=2, blocks=(("a", 0, 4),), busy=3, unusable=2)
    cells = draw_superpods([drawn]).plain.splitlines()[0].split("  ")[1].replace("|", "")
    assert len(cells) == 16


def test_more_jobs_than_letters() -> None:
    crowded = superpod(0, free=0, blocks=tuple((f"job-{n}", 0, 1) for n in range(60)))
    cells = draw_superpods([crowded], width=400).plain.split("  ")[1]
    assert cells.count("*") == 8
