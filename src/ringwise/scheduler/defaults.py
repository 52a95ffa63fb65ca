"""The plugins and actions that come with Ringwise, and the configuration that holds without a file (K)."""

from __future__ import annotations

from ringwise.actions import ACTIONS
from ringwise.framework.configuration import Configuration, Tier
from ringwise.framework.registry import Registry
from ringwise.plugins import PLUGINS

#: Our own plugins and actions.
BUILT_IN = Registry(PLUGINS, ACTIONS)

DEFAULT_ACTIONS = ("enqueue", "allocate", "backfill")
DEFAULT_TIERS = (
    ("priority", "gang", "conformance", "topology910"),
    ("drf", "predicates", "proportion", "nodeorder", "binpack"),
)


def default_tiers() -> tuple[Tier, ...]:
    specs = BUILT_IN.plugins
    return tuple(Tier(tuple(specs[name].option() for name in names)) for names in DEFAULT_TIERS)


def default_configuration() -> Configuration:
    """The configuration of a scheduler without a file."""
    return Configuration(DEFAULT_ACTIONS, default_tiers(), action_arguments=BUILT_IN.action_defaults())
