"""The chips of a node's document as signs."""

from __future__ import annotations

from ringwise.cli.printers.chips import chip_picture, legend
from ringwise.views.documents.cluster import ChipsFields

#: One chip in every state, and a faulty one that a pod holds.
CHIPS: ChipsFields = {
    "resource": "huawei.com/Ascend910",
    "board": "910-x8",
    "rings": [[0, 1, 2, 3], [4, 5, 6, 7]],
    "count": 7,
    "used": [0, 1],
    "faulty": [1, 2],
    "isolated": [3],
    "reserved": [4],
    "unschedulable": [5],
    "free": [6],
    "marks": {
        "faulty": [1, 2],
        "pre_separated": [],
        "network_faulty": [],
        "isolated": [3],
        "reserved": [4],
    },
}


def test_every_state_has_a_sign_of_its_own_and_a_chip_that_is_not_listed_has_none() -> None:
    assert chip_picture(CHIPS) == "[#Xxi|~-. ]"


def test_chips_that_were_given_are_drawn_as_free_before_and_marked_after() -> None:
    """What is unschedulable, isolated, reserved or faulty was so before, too."""
    assert chip_picture(CHIPS, free=[0, 5]) == "[.Xxi|~-# ]"
    assert chip_picture(CHIPS, marked=[0]) == "[+Xxi|~-. ]"


def test_a_row_of_many_chips_is_counted() -> None:
    many = CHIPS | {
        "rings": [list(range(64))],
        "used": [0, 1],
        "unschedulable": [],
        "free": list(range(6, 64)),
    }
    assert chip_picture(many) == "[1# 1X 1x 1i 1~ 58.]"
    assert chip_picture(many, marked=[6, 7]) == "[1# 1X 1x 1i 1~ 2+ 56.]"


def test_the_legend_names_rare_signs_only_where_they_are_drawn() -> None:
    usual = "# used  . free  + this pod  x faulty  ~ reserved"
    assert legend(["[##..]", "[+x~.]"], "this pod") == usual
    assert (
        legend([chip_picture(CHIPS)], "this pod")
        == f"{usual}  X used and faulty  i isolated  - unschedulable"
    )
    assert legend([]) == "# used  . free  x faulty  ~ reserved"
