"""Generated clusters: nodes, their device reports and their leaf switches."""

from __future__ import annotations

from ringwise.records import dataclass
from ringwise.state.model import Device, DeviceReport, Node
from ringwise.topology.board import Board
from ringwise.topology.boards import shipped_catalog
from ringwise.topology.nearest import nearest
from ringwise.topology.switches import Server, SwitchTopology, make_topology
from ringwise.wellknown import (
    ACCELERATOR,
    ACCELERATOR_TYPE,
    HOST_ARCH,
    HOST_ARCH_ARM,
    HOSTNAME,
    RACK_LABEL,
    SUPERPOD_LABEL,
    WORKER_NODE,
    WORKER_SELECTOR,
)

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class GeneratedFleet:
    nodes: tuple[Node, ...]
    reports: tuple[DeviceReport, ...]
    topology: SwitchTopology | None = None


def board_named(name: str) -> Board:
    """A shipped board, or an error that names the nearest ones."""
    catalog = shipped_catalog()
    board = catalog.get(name)
    if board is None:
        near = nearest(name, [known.name for known in catalog])
        hint = f", did you mean {near}?" if near else ""
        raise ValueError(f"there is no board {name!r}{hint} Boards: {', '.join(b.name for b in catalog)}")
    return board


def make_fleet(
    nodes: int,
    board: str = "910b-x8",
    *,
    resource: str | None = None,
    chips: int | None = None,
    leaf_size: int | None = None,
    superpod_size: int | None = None,
    single_layer: bool = False,
    prefix: str = "node-",
    first: int = 0,
    cpu_milli: int = 192_000,
    memory: int = 1536 * _GIB,
    max_pods: int = 110,
) -> GeneratedFleet:
    """Equal nodes of one board, `leaf_size` of them under each leaf switch.

    Boards with SuperPoDs get SuperPoDs of 48 nodes where no size is given; boards with racks fill
    one rack after the other.
    """
    profile = board_named(board)
    resource = resource or profile.resources[0]
    count = profile.chips_per_node if chips is None else chips
    if superpod_size is None and profile.superpod:
        superpod_size = 48
    for name, value in (
        ("nodes", nodes),
        ("chips", count),
        ("leaf size", leaf_size),
        ("SuperPoD size", superpod_size),
    ):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be 1 or more, got {value}")
    labels = {
        ACCELERATOR: "huawei-npu" if resource.endswith("/npu") else f"huawei-{resource.rpartition('/')[2]}",
        HOST_ARCH: HOST_ARCH_ARM,
        WORKER_SELECTOR: WORKER_NODE,
        **dict(profile.node_labels),
    }
    kind = next((text for text in profile.accelerator_types if text and "*" not in text), None)
    if kind is not None:
        labels[ACCELERATOR_TYPE] = kind
    made = []
    reports = []
    for number in range(first, first + nodes):
        name = f"{prefix}{number}"
        position = number - first
        superpod = None if superpod_size is None else position // superpod_size
        index = None if superpod_size is None else position % superpod_size
        rack = index // profile.rack_nodes if index is not None and profile.rack_nodes else None
        own = {**labels, HOSTNAME: name}
        if superpod is not None:
            own[SUPERPOD_LABEL] = str(superpod)
        if rack is not None:
            own[RACK_LABEL] = str(rack)
        made.append(
            Node(
                name=name,
                labels=own,
                internal_ip=_address(10, number),
                cpu_milli=cpu_milli,
                memory=memory,
                max_pods=max_pods,
                chips_allocatable={resource: count},
                chips_capacity={resource: count},
                devices=tuple(
                    Device(chip, _address(100, number * count + chip), "" if superpod is None else str(chip))
                    for chip in range(count)
                ),
                superpod=superpod,
                server_index="" if index is None else str(index),
                origin="lab",
                rack=rack,
            )
        )
        reports.append(
            DeviceReport(
                node=name,
                resource=resource,
                free=(1 << count) - 1,
                network_unhealthy=0,
                superpod=superpod,
                server_index=index,
                origin="lab",
                rack=rack,
            )
        )
    return GeneratedFleet(tuple(made), tuple(reports), _leaves(made, leaf_size, count, single_layer))


def _leaves(
    nodes: list[Node], leaf_size: int | None, chips: int, single_layer: bool
) -> SwitchTopology | None:
    if leaf_size is None:
        return None
    switches = []
    for start in range(0, len(nodes), leaf_size):
        servers = [
            Server(node.internal_ip, slice_id=position, index=position, npu_count=chips)
            for position, node in enumerate(nodes[start : start + leaf_size])
        ]
        switches.append((_address(172, start // leaf_size), servers))
    return make_topology(switches, leaf_size, single_layer=single_layer, origin="lab")


def _address(net: int, number: int) -> str:
    """An address of a network by its number; unique up to sixteen million."""
    return f"{net}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
