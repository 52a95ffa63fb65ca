"""Turns of a controller until it has nothing more to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ringwise.controller.machine import Controller
from ringwise.messages.commands import Command
from ringwise.messages.events import Event


def settle(
    controller: Controller, now: int, events: Iterable[Event], done: Callable[[Command], list[Event]]
) -> None:
    """`done` carries a command out and returns the events that follow from it."""
    waiting = list(events)
    for _ in range(100):
        commands = controller.handle(waiting, now)
        if not commands:
            return
        waiting = [event for command in commands for event in done(command)]
    raise AssertionError("no end")
