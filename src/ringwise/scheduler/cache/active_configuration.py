"""The configuration in force."""

from __future__ import annotations

from ringwise.framework.configuration import Configuration, Settings


class ActiveConfiguration:
    """All parts of the scheduler share this object, so a change reaches all of them."""

    __slots__ = ("current",)

    def __init__(self, configuration: Configuration) -> None:
        self.current = configuration

    @property
    def settings(self) -> Settings:
        return self.current.settings
