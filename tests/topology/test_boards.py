"""Rule N1: board profiles; the shipped ones are valid, invalid ones get one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringwise.topology.board_files import parse_board
from ringwise.topology.boards import BoardCatalog, BoardError, load_board, shipped_boards, shipped_catalog

GOOD = """
name = "mine"
resources = ["example.com/chip"]
chips_per_node = 4
rings = [[0, 1], [2, 3]]

[requests]
one_pod = "1,2,4"

[rule]
name = "two-chip-cards"
"""


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_profile_has_defaults_N1() -> None:
    board = parse_board(GOOD, "mine.toml")
    assert board.title == "mine"
    assert board.multi_pod == board.multi_pod_vendor == board.one_pod == {1, 2, 4}
    assert board.parameters == (("whole_card_penalty", 16),)
    assert board.ring_masks == (0b11, 0b1100)
    assert not board.watches_network


def test_requests_by_number_of_pods_N2() -> None:
    board = shipped_boards()["910-x8"]
    assert board.requests(1) == {1, 2, 4, 8}
    assert board.requests(2) == {8}
    assert board.requests(2, "vendor") == {1, 2, 4, 8}


def test_profiles_may_have_the_requests_of_the_vendor_N2() -> None:
    board = parse_board(
        changed('one_pod = "1,2,4"', 'one_pod = "1,2,4"\nmulti_pod_vendor = "2"'), "mine.toml"
    )
    assert board.requests(2, "document") == {1, 2, 4}
    assert board.requests(2, "vendor") == {2}


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        (changed("[2, 3]", "[1, 3]"), "rings[1]", "chip 1 overlaps with rings[0]"),
        (changed("[2, 3]", "[2, 2]"), "rings[1]", "chip 2 overlaps with itself"),
        (changed("[2, 3]", "[2, 4]"), "rings[1]", "chip 4 is beyond the board's chips 0..3"),
        (changed("[2, 3]", "[2, -1]"), "rings[1]", "chip -1 is beyond"),
        (changed("[2, 3]", '[2, "3"]'), "rings[1]", "must hold chip ids, not '3'"),
        (changed("[2, 3]", "7"), "rings[1]", "must be a list of chip ids"),
        (changed("[[0, 1], [2, 3]]", "[[0, 1]]"), "rings", "they hold 2 of 4 chips"),
        (changed("[[0, 1], [2, 3]]", "[[0, 1, 2], [3]]"), "rings", "sizes are 1, 3"),
        (changed("[[0, 1], [2, 3]]", "[]"), "rings", "there are none"),
        (changed("rings = [[0, 1], [2, 3]]", "ring_size = 3"), "ring_size", "does not divide"),
        (changed("rings = [[0, 1], [2, 3]]", "ring_size = 4"), "rings", "they have 4 chips"),
        (changed("chips_per_node = 4", "chips_per_node = 4\nring_size = 2"), "ring_size", "not both"),
        (changed('"1,2,4"', '"1,2,5"'), "requests.one_pod", "a request of 5 is impossible on a board of 4"),
        (changed('"1,2,4"', '"0-2"'), "requests.one_pod", "a request of 0 is impossible"),
        (changed('"1,2,4"', '"1,two"'), "requests.one_pod", "'two' is neither a count nor a range"),
        (changed('"1,2,4"', '""'), "requests.one_pod", "allows nothing"),
        (changed('"1,2,4"', "[1, 2]"), "requests.one_pod", "must be a text like"),
        (changed('one_pod = "1,2,4"', ""), "requests.one_pod", "is missing"),
        (changed('"two-chip-cards"', '"two-chip-card"'), "rule.name", "did you mean 'two-chip-cards'?"),
        (changed('"two-chip-cards"', '"paired-rings"\ntable = 1'), "rule.table", "no such field"),
        (changed('"two-chip-cards"', '"one-card"'), "rule.table", "is missing"),
        (changed('"two-chip-cards"', '"one-card"\ntable = [[0]]'), "rule.table[0]", "a list of 2 numbers"),
        (changed('"two-chip-cards"', '"one-card"\ntable = [[0, 0]]'), "rule.table[0]", "same place"),
        (changed('"two-chip-cards"', '"one-card"\ntable = [[0, 3]]'), "rule.table[0]", "numbers 0..2"),
        (
            changed('"two-chip-cards"', '"one-card"\ntable = [[0, 1], [1, 0]]'),
            "rule.table[1]",
            "lets 2 chips fit into 1 free",
        ),
        (changed("chips_per_node = 4", "chips_per_node = 65"), "chips_per_node", "not between 1 and 64"),
        (changed("chips_per_node = 4", "chips_per_node = true"), "chips_per_node", "not True"),
        (changed("chips_per_node = 4", "chips_per_node = 4.0"), "chips_per_node", "not 4.0"),
        (changed("chips_per_node = 4", ""), "chips_per_node", "is missing"),
        (changed('["example.com/chip"]', '["chip"]'), "resources", "is no resource name"),
        (changed('["example.com/chip"]', "[]"), "resources", "is missing"),
        (changed('["example.com/chip"]', "[3]"), "resources", "must be a list of texts"),
        (changed('name = "mine"', "name = 3"), "name", "must be a text, not 3"),
        (changed('name = "mine"', 'name = " "'), "name", "must not be empty"),
        (
            changed('name = "mine"', 'name = "mine"\nwatch_network = true'),
            "watch_network",
            "'watches_network'",
        ),
        (changed('name = "mine"', 'name = "mine"\nsuperpod = "yes"'), "superpod", "must be true or false"),
        (changed('name = "mine"', 'name = "mine"\nfallback = "sometimes"'), "fallback", "is none of never"),
        (changed('name = "mine"', 'name = "mine"\npolicies = ["a", "a"]'), "policies", "twice"),
        (changed('name = "mine"', 'name = "mine"\nnode_labels = {a = 1}'), "node_labels.a", "must be a text"),
        (changed('name = "mine"', "name = "), "", "is not valid TOML"),
        (changed("[requests]", "[request]"), "request", "did you mean 'requests'?"),
        ("[" * 5000, "", "is not valid TOML"),
    ],
)
def test_an_invalid_profile_gets_one_line_with_file_field_and_reason_N1(
    text: str, field: str, words: str
) -> None:
    with pytest.raises(BoardError) as caught:
        parse_board(text, "mine.toml")
    assert caught.value.field == field
    assert words in caught.value.why
    assert str(caught.value).startswith(f"mine.toml: {field}")
    assert "\n" not in str(caught.value)


def test_all_that_is_wrong_with_profiles_is_told_at_once_N1(tmp_path: Path) -> None:
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_text(
        'name = ""\nresource = ["a/b"]\nchips_per_node = 4\nfallback = "maybe"\nsuperpod = 1\n'
        'rack_nodes = 2\n[requests]\none_pod = "1,9"\nmany_pods = "1"\n'
        '[rule]\nname = "one-card"\nboth = true\n'
    )
    other.write_text(changed("chips_per_node = 4", "chips_per_node = 400").replace('"two-chip-cards"', '"x"'))
    with pytest.raises(BoardError) as caught:
        shipped_catalog([one, other])
    lines = str(caught.value).splitlines()
    found = [line.removeprefix(f"{tmp_path}/").rpartition(": ")[0] for line in lines]
    # A field that was written in another way is not told to be missing, too.
    assert [line.split(": ")[:2] for line in found] == [
        ["one.toml", "resource"],
        ["one.toml", "rule.both"],
        ["one.toml", "rings"],
        ["one.toml", "requests.many_pods"],
        ["one.toml", "requests.one_pod"],
        ["one.toml", "name"],
        ["one.toml", "superpod"],
        ["one.toml", "fallback"],
        ["other.toml", "chips_per_node"],
        ["other.toml", "rule.name"],
    ], lines


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="cannot be read: No such file"):
        load_board(tmp_path / "none.toml")
    with pytest.raises(BoardError, match="cannot be read"):
        load_board(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BoardError, match="not UTF-8"):
        load_board(tmp_path / "binary.toml")
    (tmp_path / "large.toml").write_text("# " + "x" * 70000)
    with pytest.raises(BoardError, match="larger than 64 KiB"):
        load_board(tmp_path / "large.toml")


def test_a_user_adds_a_board_by_file_N1(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    catalog = shipped_catalog([file])
    assert catalog["mine"].chips_per_node == 4
    assert len(catalog) == len(shipped_boards()) + 1
    assert "mine" not in shipped_boards()


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        ('name = "910-x8"', "name", "is already the name of"),
        ('name = "mine"\npolicies = ["chip8-node8"]', "policies", "already chooses the board 910b-x8"),
        ('name = "mine"\naccelerator_types = ["half"]', "accelerator_types", "the board 910-half"),
    ],
)
def test_two_boards_may_not_have_the_same_policy_type_or_name_N1(
    tmp_path: Path, line: str, field: str, words: str
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(changed('name = "mine"', line))
    with pytest.raises(BoardError) as caught:
        shipped_catalog([file])
    assert caught.value.field == field
    assert words in caught.value.why


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('fallback = "always"', "fallback"),
        ('job_labels = {kind = "a"}', "job_labels"),
        ("sp_block_fallback = true", "sp_block_fallback"),
    ],
)
def test_two_boards_of_a_resource_may_not_both_be_its_default_N1(line: str, field: str) -> None:
    one = parse_board(changed('name = "mine"', f'name = "one"\n{line}'), "one.toml")
    other = parse_board(changed('name = "mine"', f'name = "other"\n{line}'), "other.toml")
    catalog = BoardCatalog([one])
    with pytest.raises(BoardError) as caught:
        catalog.add(other, "other.toml")
    assert caught.value.field == field
    assert "other" not in catalog


def test_every_shipped_file_is_named_after_its_board() -> None:
    folder = Path(load_board.__code__.co_filename).parent / "profiles"
    assert sorted(path.stem for path in folder.glob("*.toml")) == sorted(shipped_boards())
