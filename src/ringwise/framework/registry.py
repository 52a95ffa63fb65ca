"""Which plugins and actions exist. Explicit: a name stands here because somebody wrote it down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ringwise.framework.plugin_options import PluginOption

if TYPE_CHECKING:
    from ringwise.framework.session import Session


class Plugin(Protocol):
    """Made anew for each cycle from its entry in the configuration; `open` registers what it has to say."""

    def open(self, session: Session) -> None: ...


class Action(Protocol):
    """One step of a cycle."""

    def __call__(self, session: Session) -> None: ...


PluginBuilder = Callable[[PluginOption], Plugin]


@dataclass(frozen=True, slots=True)
class Registry:
    plugins: Mapping[str, PluginBuilder] = field(default_factory=dict)
    actions: Mapping[str, Action] = field(default_factory=dict)

    def with_plugins(self, more: Mapping[str, PluginBuilder]) -> Registry:
        """The same registry and a user's own plugins; names of ours cannot be taken."""
        taken = sorted(set(more) & set(self.plugins))
        if taken:
            raise ValueError(f"plugin name already taken: {', '.join(taken)}")
        return Registry({**self.plugins, **more}, self.actions)
