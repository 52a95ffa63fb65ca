"""Events about nodes that report the same InternalIP as another node under a leaf switch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ringwise.messages.commands import Command, RecordNodeEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.scheduler.cache.component import Component, Context
from ringwise.topology.switches import SwitchTopology

#: Nodes with one address about which events are recorded; `ringwise doctor` counts all.
_MAX_NODES = 10


class DuplicateAddresses(Component):
    name = "duplicate addresses"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._checked: tuple[int, SwitchTopology | None] = (0, None)
        #: Addresses with the nodes that were named in the last event.
        self._recorded: dict[str, tuple[str, ...]] = {}

    def publish(self, now: int) -> Sequence[Command]:
        current = (self._state.addresses.version, self._topology.switch_topology)
        if current[0] == self._checked[0] and current[1] is self._checked[1]:
            return ()
        self._checked = current
        return list(self._changes(current[1]))

    def _changes(self, topology: SwitchTopology | None) -> Iterator[Command]:
        switches = topology.switches if topology is not None else ()
        switch_at = {server.server_ip: switch.ip for switch in switches for server in switch.servers}
        duplicates = self._state.addresses.duplicates
        before, self._recorded = self._recorded, {}
        for address, names in duplicates.items():
            switch = switch_at.get(address)
            if switch is None:
                continue
            self._recorded[address] = names
            if before.get(address) != names:
                shown = ", ".join(names[:_MAX_NODES]) + (", ..." if len(names) > _MAX_NODES else "")
                message = (
                    f"nodes {shown} have the same InternalIP {address}; {names[0]} is the oldest and keeps "
                    f"the position under leaf switch {switch}"
                )
                for name in names[:_MAX_NODES]:
                    yield RecordNodeEvent(name, EventReason.DUPLICATE_INTERNAL_IP, message, warning=True)
