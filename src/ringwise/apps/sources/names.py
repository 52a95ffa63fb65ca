"""The names of a cluster's objects, as people write them."""

from __future__ import annotations


class UnknownNameError(LookupError):
    """No object, or more than one, has that name."""


def qualified(name: str, namespace: str | None) -> str:
    """`namespace/name` where the namespace is given apart from the name."""
    return name if namespace is None or "/" in name else f"{namespace}/{name}"
