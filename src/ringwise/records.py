"""`dataclass` as in the standard library, but created in a fifth of the time.

The standard decorator compiles up to six functions for every class, which takes about a millisecond for a
frozen one. With more than two hundred classes that was a third of the start of a command. This decorator
compiles `__init__` alone, when the class is called for the first time; the other methods are shared functions
that read the fields.

It supports what Ringwise uses: `slots=True`, which is required, `frozen`, `eq`, and `field` without
`kw_only`. `fields`, `replace`, `is_dataclass` and msgspec treat its classes as dataclasses. Type checkers see
the standard decorator.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any

_FIELDS = "__dataclass_fields__"
#: Metadata of a field: whether the leader record has it.
RECORDED = "recorded"
NOT_RECORDED = {RECORDED: False}


@dataclasses.dataclass
class _Probe:
    """A standard dataclass, to read from it how it marks itself and its fields."""

    field: None


_PARAMETERS = type(getattr(_Probe, "__dataclass_params__"))  # noqa: B009
_ORDINARY_FIELD: Any = getattr(dataclasses.fields(_Probe)[0], "_field_type")  # noqa: B009


def _dataclass(*, slots: bool, frozen: bool = False, eq: bool = True) -> Callable[[type], type]:
    """Adds `__init__`, `__repr__`, `__eq__` and, where the class is frozen, `__hash__`."""
    if not slots:
        raise TypeError("dataclasses of Ringwise have slots=True")
    return lambda cls: _create(cls, frozen, eq)


def _create(cls: type, frozen: bool, eq: bool) -> type:
    fields = _fields(cls)
    members: dict[str, Any] = dict(cls.__dict__)
    for name in (*fields, "__dict__", "__weakref__"):
        # An attribute with the name of a field would hide its slot.
        members.pop(name, None)
    added: dict[str, Any] = {
        _FIELDS: fields,
        "__dataclass_params__": _PARAMETERS(True, True, eq, False, False, frozen),
        "__match_args__": tuple(field.name for field in fields.values() if field.init),
        "__repr__": _repr,
        "__doc__": f"{cls.__name__}({', '.join(fields)})",
    }
    if eq:
        compared = [field.name for field in fields.values() if field.compare]
        added["__eq__"] = _equality(compared)
        if frozen:
            hashed = [f.name for f in fields.values() if (f.compare if f.hash is None else f.hash)]
            added["__hash__"] = _hashing(hashed)
        elif "__eq__" not in members:
            members["__hash__"] = None
    if frozen:
        added["__setattr__"] = _refuse_setattr
        added["__delattr__"] = _refuse_delattr
        added["__getstate__"] = _getstate
        added["__setstate__"] = _setstate
    for name, value in added.items():
        if members.get(name) is None or name in (_FIELDS, "__dataclass_params__"):
            members[name] = value
    inherited = {slot for base in cls.__mro__[1:] for slot in getattr(base, "__slots__", ())}
    members["__slots__"] = tuple(name for name in fields if name not in inherited)
    own_init = members.get("__init__") is not None
    created: type = type(cls)(cls.__name__, cls.__bases__, members)
    created.__qualname__ = cls.__qualname__
    if not own_init:
        _set_init(created, list(fields.values()), frozen)
    return created


def _set_init(cls: Any, fields: list[Field[Any]], frozen: bool) -> None:
    """`__init__` is compiled when it is called first: a command uses few of the classes it loads."""

    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        compiled = _compiled_init(cls, fields, frozen)
        cls.__init__ = compiled
        compiled(self, *args, **kwargs)

    cls.__init__ = __init__


def _fields(cls: type) -> dict[str, Field[Any]]:
    """The fields of the bases, then those of the class itself."""
    result: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        result.update(getattr(base, _FIELDS, {}))
    for name, annotation in inspect.get_annotations(cls).items():
        if annotation.startswith(("ClassVar", "InitVar", "KW_ONLY")):
            raise TypeError(f"{cls.__name__}.{name}: {annotation} is not supported")
        default = cls.__dict__.get(name, MISSING)
        field: Any = default if isinstance(default, Field) else dataclasses.field(default=default)
        if field.default.__class__.__hash__ is None:
            raise ValueError(f"{cls.__name__}.{name}: use default_factory for a mutable default")
        field.name, field.type, field.kw_only, field._field_type = name, annotation, False, _ORDINARY_FIELD
        result[name] = field
    optional = False
    for name, field in result.items():
        if not field.init:
            continue
        if field.default is not MISSING or field.default_factory is not MISSING:
            optional = True
        elif optional:
            raise TypeError(f"{cls.__name__}.{name}: a field without a default follows one with a default")
    return result


def _compiled_init(cls: type, fields: list[Field[Any]], frozen: bool) -> Callable[..., None]:
    names: dict[str, Any] = {"__builtins__": {}, "_missing": MISSING, "_set": object.__setattr__}
    parameters, body = ["self"], []
    for field in fields:
        name, value = field.name, field.name
        if field.default_factory is not MISSING:
            names[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}()"
            if field.init:
                parameters.append(f"{name}=_missing")
                value = f"{value} if {name} is _missing else {name}"
        elif field.default is not MISSING:
            names[f"_default_{name}"] = field.default
            if field.init:
                parameters.append(f"{name}=_default_{name}")
            else:
                value = f"_default_{name}"
        elif field.init:
            parameters.append(name)
        else:
            continue
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    source = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])
    exec(source, names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {field.name: field.type for field in fields if field.init}
    return init


def _equality(names: list[str]) -> Callable[[Any, Any], Any]:
    if not names:
        return lambda self, other: True if other.__class__ is self.__class__ else NotImplemented
    compared = attrgetter(*names)

    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return compared(self) == compared(other)
        return NotImplemented

    return __eq__


def _hashing(names: list[str]) -> Callable[[Any], int]:
    if not names:
        return lambda _self: hash(())
    hashed = attrgetter(*names)
    return lambda self: hash(hashed(self))


def _repr(self: Any) -> str:
    shown = (
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    )
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_setattr(_self: Any, name: str, _value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delattr(_self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass
