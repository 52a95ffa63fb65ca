"""Since when the faults of nodes are known. Nothing is decided by it."""

from __future__ import annotations

from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on
from ringwise.scheduler.node_faults import NodeFault, node_faults


class FaultTimes(Component):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._since: dict[str, dict[NodeFault, int]] = {}
        #: When the first fault was reported. The age of faults that existed before is not known.
        self._began: int | None = None

    @on(ie.NodeChanged)
    def _node_changed(self, event: ie.NodeChanged, now: int) -> None:
        name = event.name
        if self._began is None:
            self._began = now
        number = self._state.node_id.get(name)
        faults = () if number is None else node_faults(self._state, number)
        if not faults:
            self._since.pop(name, None)
            return
        before = self._since.get(name, {})
        self._since[name] = {fault: before.get(fault, now) for fault in faults}

    def since(self, fault: NodeFault) -> int | None:
        """In nanoseconds; None where it is not known."""
        time = self._since.get(fault.node, {}).get(fault)
        return time if time is not None and self._began is not None and time > self._began else None
