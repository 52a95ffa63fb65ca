"""The names of a cluster's objects, as people write them."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.topology.nearest import did_you_mean
from ringwise.views.kinds import ShownKind


class UnknownNameError(LookupError):
    """No object, or more than one, has that name."""


def qualified(name: str, namespace: str | None) -> str:
    """`namespace/name` where the namespace is given apart from the name."""
    return name if namespace is None or "/" in name else f"{namespace}/{name}"


def find_key(kind: ShownKind, keys: Iterable[str], name: str, namespace: str | None) -> str:
    """Return the key of the object with this name; `NAMESPACE/NAME` and a bare name both do.

    Raises UnknownNameError.
    """
    keys = list(keys)
    name = qualified(name, namespace if "namespace" in kind.key_fields else None)
    if name in keys:
        return name
    matches = sorted(key for key in keys if key.partition("/")[2] == name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UnknownNameError(
            f"{len(matches)} {kind.plural} are named {name}; use one of {', '.join(matches[:5])}"
        )
    names = [*keys, *(part for key in keys if (part := key.partition("/")[2]))]
    bare = name.partition("/")[2]
    elsewhere = sorted(key for key in keys if bare and key.partition("/")[2] == bare)
    hint = f'; did you mean "{elsewhere[0]}"?' if elsewhere else did_you_mean(name, names)
    raise UnknownNameError(f'{kind.word} "{name}" not found{hint}')
