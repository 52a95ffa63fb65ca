"""Generated clusters: nodes, their device reports and their leaf switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ringwise import wellknown
from ringwise.grammar import counted, quoted
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.records import dataclass
from ringwise.state.allocation_modes import UNITS_OF_A_CHIP
from ringwise.state.model import Device, DeviceReport, Node
from ringwise.topology.board import Board
from ringwise.topology.nearest import did_you_mean
from ringwise.topology.numbers import whole_number
from ringwise.topology.switches import Server, SwitchTopology, make_topology

_GIB = 1 << 30
#: Of each chip of a node with dynamic vNPUs.
_CORES = 8
#: Nodes of a generated cluster.
MAX_NODES = 100_000


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
        names = [one.name for one in catalog]
        raise ValueError(
            f"board {quoted(name)} not found; must be one of {', '.join(names)}{did_you_mean(name, names)}"
        )
    return board


def parse_boards(text: str, nodes: int) -> tuple[tuple[str, int], ...]:
    """The boards in a text like `910-x8:200,310p:50`, each with how many nodes have it.

    A board alone has all `nodes`. Raises ValueError with one line.
    """
    parts = [part.strip() for part in text.split(",")]
    boards: dict[str, int] = {}
    for part in parts:
        name, colon, count = (piece.strip() for piece in part.partition(":"))
        if not name:
            raise ValueError(
                f"invalid boards {quoted(text)}: a name is missing; expected a list such as "
                "910-x8:200,310p:50"
            )
        board_named(name)
        if name in boards:
            raise ValueError(f"invalid boards {quoted(text)}: {name} is listed twice")
        if not colon and len(parts) > 1:
            raise ValueError(
                f"invalid boards {quoted(text)}: the number of nodes of {name} is missing; "
                f"expected {name}:NUMBER"
            )
        if colon and (whole_number(count) or 0) < 1:
            raise ValueError(f"{quoted(part)} must have a whole number, at least 1, after the colon")
        boards[name] = int(count) if colon else nodes
    if (total := sum(boards.values())) > MAX_NODES:
        raise ValueError(f"{quoted(text)} has {counted(total, 'node')}; the limit of a lab is {MAX_NODES}")
    return tuple(boards.items())


def make_mixed_fleet(
    boards: Sequence[tuple[str, int]],
    *,
    leaf_size: int | None = None,
    superpod_size: int | None = None,
    soft: int = 0,
    dynamic: int = 0,
) -> GeneratedFleet:
    """Nodes of several boards, numbered through. No leaf switch and no SuperPoD has nodes of two boards.

    `soft` nodes with soft shares and `dynamic` nodes with dynamic vNPUs follow.
    """
    profiles = [(board_named(name), nodes) for name, nodes in boards if nodes]
    # Beside boards with SuperPoDs the others are in none.
    superpods = any(board.superpod for board, _ in profiles)
    stride = max((board.chips_per_node for board, _ in profiles), default=0)
    made: list[GeneratedFleet] = []
    first = first_superpod = 0
    for board, nodes in profiles:
        size = superpod_size if board.superpod or not superpods else None
        made.append(
            make_fleet(
                nodes,
                board.name,
                superpod_size=size,
                first=first,
                first_superpod=first_superpod,
                device_stride=stride,
            )
        )
        first += nodes
        if made[-1].nodes[-1].superpod is not None:
            first_superpod = made[-1].nodes[-1].superpod + 1
    if soft:
        whole = make_fleet(soft, "910b-x8", first=first, device_stride=stride or None)
        labels = {wellknown.SOFT_SHARING_LABEL: "true", wellknown.CHIP_MEMORY_LABEL: "64G"}
        made.append(_offering(whole, labels, wellknown.ASCEND910, UNITS_OF_A_CHIP))
    if dynamic:
        whole = make_fleet(dynamic, "310p", chips=8, first=first + soft, device_stride=stride or None)
        labels = {wellknown.SERVER_TYPE_LABEL: "Ascend310P-8", wellknown.CHIP_NAME_LABEL: "310P3"}
        made.append(_offering(whole, labels, wellknown.NPU_CORE, _CORES))
    leaves = [leaf for one in made for leaf in _leaves(one.nodes, leaf_size)] if leaf_size else []
    topology = make_topology(_named(leaves), leaf_size, origin="lab") if leaf_size and leaves else None
    return GeneratedFleet(
        tuple(node for one in made for node in one.nodes),
        tuple(report for one in made for report in one.reports),
        topology,
    )


def _offering(
    fleet: GeneratedFleet, labels: Mapping[str, str], resource: str, units_of_a_chip: int
) -> GeneratedFleet:
    nodes = []
    for node in fleet.nodes:
        units = {resource: units_of_a_chip * len(node.devices or ())}
        own = {**node.labels, **labels}
        nodes.append(replace(node, labels=own, chips_allocatable=units, chips_capacity=units))
    return GeneratedFleet(tuple(nodes), fleet.reports)


def make_fleet(
    nodes: int,
    board: str = "910b-x8",
    *,
    chips: int | None = None,
    leaf_size: int | None = None,
    superpod_size: int | None = None,
    prefix: str = "node-",
    first: int = 0,
    first_superpod: int = 0,
    device_stride: int | None = None,
) -> GeneratedFleet:
    """Equal nodes of one board, `leaf_size` of them under each leaf switch.

    Boards with SuperPoDs get SuperPoDs of 48 nodes where no size is given; boards with racks fill
    one rack after the other.
    """
    profile = board_named(board)
    resource = profile.resources[0]
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
        wellknown.ACCELERATOR: "huawei-npu"
        if resource.endswith("/npu")
        else f"huawei-{resource.rpartition('/')[2]}",
        wellknown.HOST_ARCH: wellknown.HOST_ARCH_ARM,
        wellknown.WORKER_SELECTOR: wellknown.WORKER_NODE,
        **dict(profile.node_labels),
    }
    kind = next((text for text in profile.accelerator_types if text and "*" not in text), None)
    if kind is not None:
        labels[wellknown.ACCELERATOR_TYPE] = kind
    stride = count if device_stride is None else device_stride
    made = []
    reports = []
    for number in range(first, first + nodes):
        name = f"{prefix}{number}"
        position = number - first
        superpod = None if superpod_size is None else first_superpod + position // superpod_size
        index = None if superpod_size is None else position % superpod_size
        rack = index // profile.rack_nodes if index is not None and profile.rack_nodes else None
        own = {**labels, wellknown.HOSTNAME: name}
        if superpod is not None:
            own[wellknown.SUPERPOD_LABEL] = str(superpod)
        if rack is not None:
            own[wellknown.RACK_LABEL] = str(rack)
        made.append(
            Node(
                name=name,
                labels=own,
                internal_ip=_address(10, number),
                cpu_milli=192_000,
                memory=1536 * _GIB,
                max_pods=110,
                chips_allocatable={resource: count},
                chips_capacity={resource: count},
                devices=tuple(
                    Device(chip, _address(100, number * stride + chip), "" if superpod is None else str(chip))
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
    topology = None
    if leaf_size is not None:
        topology = make_topology(_named(_leaves(made, leaf_size)), leaf_size, origin="lab")
    return GeneratedFleet(tuple(made), tuple(reports), topology)


def _leaves(nodes: Sequence[Node], leaf_size: int) -> list[list[Server]]:
    return [
        [
            Server(node.internal_ip, slice_id=place, index=place, npu_count=sum(node.chips_capacity.values()))
            for place, node in enumerate(nodes[start : start + leaf_size])
        ]
        for start in range(0, len(nodes), leaf_size)
    ]


def _named(leaves: Sequence[list[Server]]) -> list[tuple[str, list[Server]]]:
    return [(_address(172, number), servers) for number, servers in enumerate(leaves)]


def _address(net: int, number: int) -> str:
    """An address of a network by its number; unique up to sixteen million."""
    return f"{net}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
