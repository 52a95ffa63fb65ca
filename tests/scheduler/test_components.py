"""What the scheduler is made of: few collaborators for each part, and no event that none hears."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections import abc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, NamedTuple

import ringwise.scheduler
from ringwise.manifests.kinds import events_of
from ringwise.messages import events as ev
from ringwise.scheduler import internal_events
from ringwise.scheduler.cache.component import Component, Components, Context, on
from ringwise.scheduler.cache.deadlines import DeadlineTables
from tests.scheduler.rig import Rig

#: Members of a bundle count like parameters.
MAX_COLLABORATORS = 8


def classes(package: Any) -> Iterator[type]:
    """Every class that a module of the package defines."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        for one in vars(module).values():
            if inspect.isclass(one) and one.__module__ == module.__name__:
                yield one


def is_record(one: object) -> bool:
    return inspect.isclass(one) and (is_dataclass(one) or hasattr(one, "_fields"))


def types_in(hint: Any) -> Iterator[Any]:
    """`list[Job] | None` holds `list`, `Job` and `NoneType`."""
    origin = typing.get_origin(hint)
    yield origin or hint
    for argument in typing.get_args(hint) if origin is not abc.Callable else ():
        yield from types_in(argument)


def members(record: type) -> dict[str, Any]:
    # Of a NamedTuple these are its fields.
    names = [one.name for one in fields(record)] if is_dataclass(record) else list(record.__annotations__)
    hints = typing.get_type_hints(record)
    return {name: hints[name] for name in names}


def is_ours(one: object) -> bool:
    return inspect.isclass(one) and one.__module__.startswith(("ringwise", __name__))


def is_bundle(one: object) -> bool:
    """A record of the scheduler with members that do something; records of other packages are values.

    A class with methods of its own is one collaborator, however its constructor is written.
    """
    ours = is_record(one) and one.__module__.startswith(("ringwise.scheduler", __name__))
    if not inspect.isclass(one) or not ours:
        return False
    acts = any(inspect.isfunction(value) for name, value in vars(one).items() if not name.startswith("_"))
    return not acts and any(map(is_collaborator, members(one).values()))


def is_collaborator(hint: Any) -> bool:
    """Whether a value of this type does something: no record, no plain value."""
    found = list(types_in(hint))
    parts = (one for one in found if is_ours(one) and not is_record(one) and not issubclass(one, Enum))
    return abc.Callable in found or any(True for _ in parts) or any(map(is_bundle, found))


def weight(hint: Any) -> int:
    """How many collaborators a parameter of this type is: a bundle counts with those of its members.

    The context counts as one: what all components share.
    """
    bundles = [one for one in types_in(hint) if is_bundle(one) and one is not Context]
    inside = collaborators_in(bundles)
    return max(inside, 1)


def collaborators_in(bundles: Iterable[type]) -> int:
    hints = (hint for bundle in bundles for hint in members(bundle).values())
    return sum(weight(hint) for hint in hints if is_collaborator(hint))


def collaborators(one: type) -> int:
    if is_record(one):
        return collaborators_in([one])
    if "__init__" not in vars(one):
        return 0
    initializer = vars(one)["__init__"]
    hints = typing.get_type_hints(initializer)
    # The initializer of a protocol has no hints.
    names = inspect.signature(initializer).parameters
    return sum(weight(hints[name]) for name in names if name in hints)


class _Engine:
    pass


@dataclass
class _Bundle:
    first: _Engine
    second: list[_Engine]
    third: Callable[[int], None]
    word: str


class _Values(NamedTuple):
    one: int
    two: str


class _User:
    def __init__(self, bundle: _Bundle | None, values: _Values, engine: _Engine) -> None: ...


def test_members_of_a_bundle_count_as_collaborators() -> None:
    assert collaborators(_User) == 3 + 1 + 1
    assert collaborators(_Bundle) == 3
    assert collaborators(_Values) == 0


def test_no_constructor_of_the_scheduler_has_more_than_eight_collaborators() -> None:
    found = (one for one in classes(ringwise.scheduler) if one is not Context)
    counted = {f"{one.__module__}.{one.__name__}": collaborators(one) for one in found}
    assert counted["ringwise.scheduler.faults.handler.FaultHandler"] == 2
    assert counted["ringwise.scheduler.core.cycle.Cycle"] == 6
    assert {name: count for name, count in counted.items() if count > MAX_COLLABORATORS} == {}


def test_every_internal_event_is_heard_and_every_event_that_is_heard_arrives() -> None:
    machine = Rig().machine
    heard = set(machine._components._handlers)
    internal = {one for one in vars(internal_events).values() if inspect.isclass(one) and is_record(one)}
    internal = {one for one in internal if one.__module__ == internal_events.__name__}
    assert internal - {internal_events.JobEvent, internal_events.PodEvent} <= heard
    messages = {one for one in vars(ev).values() if inspect.isclass(one)}
    assert heard - internal <= messages | set(events_of())


def test_components_hear_and_contribute_in_the_order_of_the_list() -> None:
    said: list[str] = []

    class Listening(Component):
        def __init__(self, name: str, when: int | None) -> None:
            self.name = name
            self._when = when

        @on(str)
        def _said(self, event: str, now: int) -> None:
            said.append(f"{self.name} hears {event} at {now}")

        def deadline(self) -> int | None:
            return self._when

        def review(self, now: int) -> None:
            said.append(f"{self.name} reviews")

    deadlines = DeadlineTables()
    machine = Rig().machine
    components = Components(deadlines, machine._state, machine._book)
    first, second, third = (
        Listening("first", 7),
        Listening("second", None),
        Listening("third", 5),
    )
    components.hold((first, second, third))
    components.notify("a word", 3)
    components.notify(b"a word that none hears", 3)
    assert said == [f"{name} hears a word at 3" for name in ("first", "second", "third")]
    assert components.overriding(Component.review) == [first, second, third]
    assert components.overriding(Component.act) == []
    assert components.deadline() == 5
    deadlines.table().put("key", 4)
    assert components.deadline() == 4
