"""The base class of commands, those of accounting included (`commands`, `accounting`)."""

from __future__ import annotations


class Command:
    """What scheduler or controller decided. The Kubernetes adapter or the lab carries it out."""

    __slots__ = ()
