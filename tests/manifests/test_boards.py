"""Rule N1: board profiles; the shipped ones are valid, invalid ones get one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringwise.manifests.settings.boards import load_board, parse_board, shipped_boards, shipped_catalog
from ringwise.manifests.text.errors import DocumentError
from ringwise.topology.boards import BoardCatalog, BoardError

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
    assert not board.checks_network


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
        (changed("[2, 3]", "[1, 3]"), "rings[1]", "chip 1 is already in rings[0]"),
        (changed("[2, 3]", "[2, 2]"), "rings[1]", "chip 2 is already in rings[1]"),
        (changed("[2, 3]", "[2, 4]"), "rings[1]", "4: must be 0 to 3"),
        (changed("[2, 3]", "[2, -1]"), "rings[1][1]", "-1: must be a whole number from 0 to 63"),
        (changed("[2, 3]", '[2, "3"]'), "rings[1][1]", '"3": must be a whole number from 0 to 63'),
        (changed("[2, 3]", "7"), "rings[1]", "7: must be a list"),
        (changed("[[0, 1], [2, 3]]", "[[0, 1, 2, 3], []]"), "rings[1]", "at least one chip"),
        (changed("[[0, 1], [2, 3]]", "[[0, 1]]"), "rings", "they hold 2 of 4 chips"),
        (changed("[[0, 1], [2, 3]]", "[[0, 1, 2], [3]]"), "rings", "sizes are 1, 3"),
        (changed("[[0, 1], [2, 3]]", "[]"), "rings", "there are none"),
        (
            changed("rings = [[0, 1], [2, 3]]", "ring_size = 3"),
            "ring_size",
            "3: must divide chips_per_node, 4",
        ),
        (changed("rings = [[0, 1], [2, 3]]", "ring_size = 4"), "rings", "they have 4 chips"),
        (changed("rings = [[0, 1], [2, 3]]", "ring_size = 0"), "ring_size", "from 1 to 64"),
        (
            changed("chips_per_node = 4", "chips_per_node = 4\nring_size = 2"),
            "ring_size",
            "combined with rings",
        ),
        (changed('"1,2,4"', '"1,2,5"'), "requests.one_pod", "5: must be 1 to 4"),
        (changed('"1,2,4"', '"0-2"'), "requests.one_pod", "0: must be 1 to 4"),
        (changed('"1,2,4"', '"1,two"'), "requests.one_pod", '"two" is neither a count nor a range'),
        (changed('"1,2,4"', '""'), "requests.one_pod", "must name at least one count"),
        (changed('"1,2,4"', "[1, 2]"), "requests.one_pod", "must be a string such as"),
        (changed('"1,2,4"', '"1"\nmulti_pod = "9"'), "requests.multi_pod", "9: must be 1 to 4"),
        (changed('one_pod = "1,2,4"', ""), "requests.one_pod", "Required value"),
        (changed('"two-chip-cards"', '"two-chip-card"'), "rule.name", 'did you mean "two-chip-cards"?'),
        (changed('"two-chip-cards"', '"paired-rings"\ntable = 1'), "rule.table", "unknown field"),
        (changed('"two-chip-cards"', '"one-card"'), "rule.table", "Required value"),
        (changed('"two-chip-cards"', '"one-card"\ntable = [[0]]'), "rule.table[0]", "must have 2 numbers"),
        (changed('"two-chip-cards"', '"one-card"\ntable = []'), "rule.table", "must have 1 to 2 rows"),
        (changed('"two-chip-cards"', '"one-card"\ntable = [[0, 0]]'), "rule.table[0]", "same place"),
        (changed('"two-chip-cards"', '"one-card"\ntable = [[0, 3]]'), "rule.table[0]", "numbers from 0 to 2"),
        (
            changed('"two-chip-cards"', '"one-card"\ntable = [[0, 1], [1, 0]]'),
            "rule.table[1]",
            "must be 2 (unfit) for less than 2 free chips",
        ),
        (
            changed("chips_per_node = 4", "chips_per_node = 65"),
            "chips_per_node",
            "65: must be a whole number",
        ),
        (changed("chips_per_node = 4", "chips_per_node = true"), "chips_per_node", "true: must be"),
        (changed("chips_per_node = 4", "chips_per_node = 4.5"), "chips_per_node", "4.5: must be"),
        (changed("chips_per_node = 4", ""), "chips_per_node", "Required value"),
        (changed('["example.com/chip"]', '["chip"]'), "resources[0]", "must be the name of a resource"),
        (changed('["example.com/chip"]', '["a/b/c"]'), "resources[0]", "must be the name of a resource"),
        (changed('["example.com/chip"]', "[]"), "resources", "must be a list that is not empty"),
        (changed('["example.com/chip"]', "[3]"), "resources[0]", "3: must be a string"),
        (changed('name = "mine"', "name = 3"), "name", "3: must be a string"),
        (changed('name = "mine"', 'name = ""'), "name", "must be a string that is not empty"),
        (
            changed('name = "mine"', 'name = "mine"\nwatch_network = true'),
            "watch_network",
            'did you mean "checks_network"?',
        ),
        (changed('name = "mine"', 'name = "mine"\nsuperpod = "yes"'), "superpod", "must be true or false"),
        (
            changed('name = "mine"', 'name = "mine"\nfallback = "maybe"'),
            "fallback",
            "must be always, never or unlabeled",
        ),
        (
            changed('name = "mine"', 'name = "mine"\nnode_labels = {a = 1}'),
            "node_labels.a",
            "must be a string",
        ),
        (changed('name = "mine"', "name = "), "", "is not valid TOML"),
        ("[" * 5000, "", "is not valid TOML"),
    ],
)
def test_an_invalid_profile_gets_one_line_with_file_field_and_reason_N1(
    text: str, field: str, words: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_board(text, "mine.toml")
    (error,) = caught.value.errors
    assert error.field == field
    assert words in error.message
    assert str(caught.value).startswith(f"mine.toml: {field}")


def test_all_errors_of_profiles_are_reported_at_once_N1(tmp_path: Path) -> None:
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_text(
        'name = ""\nresource = ["a/b"]\nchips_per_node = 4\nfallback = "maybe"\nsuperpod = 1\n'
        'rack_nodes = -2\n[requests]\none_pod = "1,9"\nmany_pods = "1"\n[rule]\nname = "one-card"\n'
    )
    other.write_text(changed('"1,2,4"', '"8"').replace('"two-chip-cards"', '"x"').replace("[0, 1]", "[0, 8]"))
    with pytest.raises(DocumentError) as caught:
        shipped_catalog([one, other])
    assert [(Path(error.origin).name, error.field) for error in caught.value.errors] == [
        ("one.toml", "resource"),
        ("one.toml", "name"),
        ("one.toml", "resources"),
        ("one.toml", "requests.many_pods"),
        ("one.toml", "fallback"),
        ("one.toml", "superpod"),
        ("one.toml", "rack_nodes"),
        ("other.toml", "rings[0]"),
        ("other.toml", "requests.one_pod"),
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be read: no such file"):
        load_board(tmp_path / "none.toml")
    with pytest.raises(DocumentError, match="cannot be read"):
        load_board(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DocumentError, match="not UTF-8"):
        load_board(tmp_path / "binary.toml")
    (tmp_path / "large.toml").write_text("# " + "x" * 70000)
    with pytest.raises(DocumentError, match="at most 64 KiB"):
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
        ('name = "910-x8"', "name", "is already the name of a board"),
        ('name = "mine"\npolicies = ["chip8-node8"]', "policies", "already selects the board 910b-x8"),
        ('name = "mine"\naccelerator_types = ["half"]', "accelerator_types", "the board 910-half"),
    ],
)
def test_two_boards_may_not_have_the_same_policy_type_or_name_N1(
    tmp_path: Path, line: str, field: str, words: str
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(changed('name = "mine"', line))
    with pytest.raises(DocumentError) as caught:
        shipped_catalog([file])
    (error,) = caught.value.errors
    assert (error.origin, error.field) == (str(file), field)
    assert words in error.message


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
        catalog.add(other)
    assert caught.value.field == field
    assert catalog.get("other") is None


def test_every_shipped_file_is_named_after_its_board() -> None:
    folder = Path(load_board.__code__.co_filename).parent / "profiles"
    assert sorted(path.stem for path in folder.glob("*.toml")) == sorted(shipped_boards())
