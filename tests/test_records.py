"""`ringwise.records.dataclass` makes the same classes as the standard decorator."""

from __future__ import annotations

import ast
import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise import records
from tests.checkout import ALL_SOURCES, nodes_of, source_name

SOURCE = """
from __future__ import annotations
from dataclasses import field

@dataclass(slots=True{options})
class Base:
    number: int
    text: str = "x"
    items: list[int] = field(default_factory=list{unhashed})
    hidden: int = field(default=3, repr=False, compare=False)
    made: int = field(default=7, init=False)

    def double(self) -> int:
        return self.number * 2


@dataclass(slots=True{options})
class Derived(Base):
    more: tuple[int, ...] = ()
"""


def classes(decorator: Any, *, frozen: bool) -> dict[str, Any]:
    options, unhashed = (", frozen=True", ", hash=False") if frozen else ("", "")
    source = SOURCE.format(options=options, unhashed=unhashed)
    names: dict[str, Any] = {"dataclass": decorator, "__name__": __name__}
    exec(source, names)
    return names


STANDARD = {frozen: classes(dataclasses.dataclass, frozen=frozen) for frozen in (True, False)}
OURS = {frozen: classes(records.dataclass, frozen=frozen) for frozen in (True, False)}

numbers = st.integers(-2, 2)
arguments = st.fixed_dictionaries(
    {"number": numbers},
    optional={
        "text": st.sampled_from(["x", "y"]),
        "items": st.lists(numbers, max_size=2),
        "hidden": numbers,
        "more": st.lists(numbers, max_size=2).map(tuple),
    },
)


@pytest.mark.parametrize("frozen", [True, False])
@given(first=arguments, second=arguments)
def test_instances_behave_as_those_of_the_standard_decorator(
    frozen: bool, first: dict[str, Any], second: dict[str, Any]
) -> None:
    def facts(names: dict[str, Any]) -> list[object]:
        one, other = names["Derived"](**first), names["Derived"](**second)
        found = [repr(one), one == other, one == one, one != 5, one.double(), dataclasses.asdict(one)]
        found += [replace(one, number=9) == replace(other, number=9), copy.copy(one) == one]
        if frozen:
            found += [(hash(one) == hash(other)) or one != other, {one: 1}.get(copy.deepcopy(one))]
        return found

    assert facts(OURS[frozen]) == facts(STANDARD[frozen])


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("name", ["Base", "Derived"])
def test_classes_look_as_those_of_the_standard_decorator(frozen: bool, name: str) -> None:
    ours, standard = OURS[frozen][name], STANDARD[frozen][name]
    assert is_dataclass(ours)

    def described(cls: Any) -> list[tuple[object, ...]]:
        return [(f.name, f.type, f.init, f.repr, f.compare, f.hash) for f in fields(cls)]

    assert described(ours) == described(standard)
    for attribute in ("__slots__", "__match_args__", "__qualname__", "__module__"):
        assert getattr(ours, attribute) == getattr(standard, attribute)
    assert (ours.__hash__ is None) == (standard.__hash__ is None)


@pytest.mark.parametrize("wrong", [{}, {"number": 1, "absent": 2}, {"number": 1, "made": 2}])
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    for names in (OURS[True], STANDARD[True]):
        with pytest.raises(TypeError):
            names["Base"](**wrong)


def test_a_frozen_instance_cannot_be_changed() -> None:
    one = OURS[True]["Base"](1)
    with pytest.raises(FrozenInstanceError, match="number"):
        one.number = 2
    with pytest.raises(FrozenInstanceError, match="number"):
        del one.number
    with pytest.raises(FrozenInstanceError, match="absent"):
        one.absent = 2


def test_an_instance_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        OURS[False]["Base"](1).absent = 2


@records.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: tuple[int, ...] = ()
    z: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "z", self.x + 1)


def test_pickle_and_msgspec_know_the_class() -> None:
    point = Point(1, (2, 3))
    assert pickle.loads(pickle.dumps(point)) == point
    assert msgspec.json.decode(msgspec.json.encode(point), type=Point) == point
    assert point.z == 2


def test_a_match_statement_finds_the_fields() -> None:
    match Point(1, (2,)):
        case Point(x, (y,)):
            assert (x, y) == (1, 2)
        case _:
            raise AssertionError


def test_methods_of_the_class_itself_stay() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Named:
        name: str

        def __repr__(self) -> str:
            return self.name

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    assert (repr(Named("a")), Named("a") == Named("b"), hash(Named("a"))) == ("a", True, 5)


@pytest.mark.parametrize(
    ("options", "body", "error"),
    [
        ({"slots": False}, "x: int", "slots=True"),
        ({"slots": True}, "x: list[int] = []", "default_factory"),
        ({"slots": True}, "x: ClassVar[int] = 1", "not supported"),
        ({"slots": True}, "x: int = 1; y: int", "default"),
    ],
)
def test_what_is_not_supported_is_refused(options: dict[str, Any], body: str, error: str) -> None:
    source = f"from __future__ import annotations\n@dataclass\nclass Wrong:\n    {body}\n"
    with pytest.raises((TypeError, ValueError, SyntaxError), match=error):
        exec(source, {"dataclass": lambda cls: records.dataclass(**options)(cls), "__name__": __name__})


def test_all_dataclasses_of_the_project_are_made_here() -> None:
    found = [
        source_name(path)
        for path in ALL_SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom)
        and node.module == "dataclasses"
        and any(alias.name == "dataclass" for alias in node.names)
    ]
    assert found == ["ringwise/records.py"]
