"""Decisions about pods, written into a log, so that whatever does not come off is undone to the last bit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ringwise.state.fleet import Fleet
from ringwise.state.model import Pod
from ringwise.topology.chips import chips_of


@dataclass(slots=True)
class Placement:
    """Where a pod sits in the state's books."""

    pod: Pod
    node: int = -1
    chips: int = 0
    #: True between a decision and the fact that confirms it.
    assumed: bool = False


class ChipTaken(Exception):
    """A decision tried to give a chip away twice: a defect, never an outcome."""


class Decisions(ABC):
    """The part of the state that a cycle changes. Marks nest like brackets."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.fleets: dict[str, Fleet] = {}
        self.pods: dict[str, Placement] = {}
        self._log: list[tuple[str, int, int, bool]] = []
        self._open_marks = 0

    @abstractmethod
    def _hold(self, placement: Placement, number: int, mask: int, assumed: bool) -> None: ...

    @abstractmethod
    def _unhold(self, placement: Placement) -> None: ...

    @abstractmethod
    def _refresh(self, number: int, resource: str | None = None) -> None: ...

    def place(self, uid: str, number: int, chips: int) -> None:
        """Decide: this pod takes these chips (a mask) of this node. Undone by `rollback`."""
        placement = self.pods[uid]
        if placement.node >= 0:
            raise ChipTaken(f"{placement.pod.key} has a node already")
        resource = placement.pod.cls.resource
        if resource is not None and chips and self.fleets[resource].held[number] & chips:
            raise ChipTaken(f"{placement.pod.key}: chips {chips_of(chips)} of {self.names[number]} are held")
        self._hold(placement, number, chips, assumed=True)
        if self._open_marks:
            self._log.append((uid, -1, 0, False))

    def release(self, uid: str) -> None:
        """Decide: this pod lets go of what it has. Undone by `rollback`."""
        placement = self.pods[uid]
        number, chips, assumed = placement.node, placement.chips, placement.assumed
        if number < 0:
            return
        if self._open_marks:
            # What the node reports as free does not know of suppositions.
            self._suppose(placement.pod.cls.resource, number, chips, True)
            self._log.append((uid, number, chips, assumed))
        self._unhold(placement)

    def checkpoint(self) -> int:
        """Open a transaction; marks nest like brackets."""
        self._open_marks += 1
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Undo every decision since the mark, last first, and close it."""
        while len(self._log) > mark:
            uid, number, chips, assumed = self._log.pop()
            placement = self.pods[uid]
            if number < 0:
                self._unhold(placement)
            else:
                self._suppose(placement.pod.cls.resource, number, chips, False)
                self._hold(placement, number, chips, assumed)
        self._close()

    def _suppose(self, resource: str | None, number: int, chips: int, free: bool) -> None:
        if resource is not None and chips:
            supposed = self.fleets[resource].supposed_free
            supposed[number] = supposed[number] | chips if free else supposed[number] & ~chips

    def commit(self, mark: int) -> None:
        """Keep the decisions since the mark. An outer transaction may still undo them."""
        if self._open_marks == 1:
            for uid, number, chips, _ in self._log:
                if number >= 0:
                    self._suppose(self.pods[uid].pod.cls.resource, number, chips, False)
                    self._refresh(number)
        self._close()

    def undo_open(self) -> bool:
        """Undo whatever an interrupted caller left open; False when nothing was."""
        was_open = self._open_marks > 0
        while self._open_marks:
            self.rollback(0)
        return was_open

    def _close(self) -> None:
        self._open_marks -= 1
        if self._open_marks == 0:
            self._log.clear()
