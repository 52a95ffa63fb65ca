"""Compares what the driver of one node says with its board profile. Read-only, without a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from ringwise import __version__
from ringwise.device.cards import Chip, accelerator_type, card_type, lead, resource_of
from ringwise.device.discovery import Discovery
from ringwise.device.driver_poll import DriverPoll
from ringwise.device.drivers.port import Driver, DriverError, Readings
from ringwise.device.health.configuration import FaultConfiguration, shipped_configuration
from ringwise.device.health.levels import is_harmless
from ringwise.device.health.monitor import Poll
from ringwise.grammar import counted
from ringwise.topology.board import Board
from ringwise.topology.boards import BoardCatalog
from ringwise.views.documents.reference import CheckedChipFields, HardwareCheckDocument


async def check_hardware(driver: Driver, catalog: BoardCatalog) -> HardwareCheckDocument:
    """Return what the driver says, without names, addresses and serial numbers. Raises DriverError."""
    discovery = Discovery(driver)
    chips = sorted(await discovery.look(), key=lambda chip: chip.physical)
    card = card_type(chips[0].chip_name, chips[0].board)
    poll = DriverPoll(discovery, lambda: None)
    names = {str(chip.physical): chip for chip in chips}
    seen = await poll.at(card, names)
    problems = [f"{place}: {why}" for place, why in discovery.problems.items()]
    try:
        readings = await discovery.calls.one("readings", lambda: driver.readings(chips))
    except DriverError as error:
        readings = {}
        problems.append(f"memory and utilization: {error}")
    try:
        groups = await discovery.calls.one("links", lambda: linked_groups(driver, chips))
    except DriverError as error:
        groups = None
        problems.append(f"links: {error}")
    faults = shipped_configuration()
    rows = [_row(chip, seen, readings.get(chip.physical), faults) for chip in chips]
    label = accelerator_type(card, chips)
    boards = matching_boards(catalog, resource_of(card), label, len(chips) + len(discovery.problems))
    problems += [
        *_chip_problems(rows),
        *_board_problems(boards, resource_of(card), chips, bool(discovery.problems)),
        *_link_problems(boards, groups, bool(discovery.problems)),
    ]
    if poll.switch_faults:
        problems.append(f"the interconnect of the node reports {len(poll.switch_faults)} alarms")
    first = lead(chips)
    return HardwareCheckDocument(
        ringwise=__version__,
        driver=driver.kind,
        driver_version=await poll.version(),
        card_type=card,
        resource=resource_of(card),
        board_ids=sorted({f"{chip.board:#x}" for chip in chips}),
        products=sorted({chip.product for chip in chips if chip.product}),
        superpod=first.superpod >= 0,
        accelerator_type=label,
        boards=[board.name for board in boards],
        links=_links(boards[0]) if len(boards) == 1 else "",
        driver_links=groups,
        chips=rows,
        problems=problems,
    )


def matching_boards(catalog: BoardCatalog, resource: str, label: str, count: int) -> list[Board]:
    """Return the boards that the node may be: that of the label, else those with as many chips."""
    serving = [board for board in catalog.serving(resource) if board.chips_per_node == count]
    labeled = [board for board in serving if label in board.accelerator_types]
    return labeled if label and labeled else serving


def _row(chip: Chip, seen: Poll, reading: Readings | None, faults: FaultConfiguration) -> CheckedChipFields:
    codes = seen.codes.get(chip.physical)
    network = seen.network.get(chip.physical)
    return CheckedChipFields(
        id=chip.physical,
        name=chip.chip_name,
        answers=codes is not None,
        faults={faults.written(code): faults.level_of(code) for code in codes or ()},
        network="unknown" if network is None else "up" if network else "down",
        memory_megabytes=chip.memory,
        memory_used_megabytes=reading.memory_used if reading else None,
        ai_cores=chip.ai_cores,
        sharing=chip.sharing,
    )


def _chip_problems(rows: Sequence[CheckedChipFields]) -> list[str]:
    result = []
    for row in rows:
        if not row.answers:
            result.append(f"chip {row.id}: the driver does not report its faults")
        for code, level in row.faults.items():
            if not is_harmless(level):
                result.append(f"chip {row.id}: fault {code} ({level})")
        if row.network == "down":
            result.append(f"chip {row.id}: the network port is down")
    sizes = Counter((row.name, row.memory_megabytes, row.ai_cores, row.sharing) for row in rows)
    if len(sizes) > 1:
        result.append("the chips differ in model, memory, number of AI cores or sharing mode")
    return result


def _board_problems(
    boards: Sequence[Board], resource: str, chips: Sequence[Chip], incomplete: bool
) -> list[str]:
    result = []
    if not boards:
        result.append(f"no board profile matches {counted(len(chips), 'chip')} of {resource}")
    ids = [chip.physical for chip in chips]
    if not incomplete and ids != list(range(len(ids))):
        result.append(f"ids of chips are {', '.join(map(str, ids))}; expected 0 to {len(ids) - 1}")
    return result


def linked_groups(driver: Driver, chips: Sequence[Chip]) -> list[list[int]] | None:
    """Return the groups of linked chips; None if the driver does not say which are linked."""
    groups = [{chip.physical} for chip in chips]
    said = False
    for one, other in combinations(chips, 2):
        linked = driver.linked(one, other)
        said = said or linked is not None
        mine, theirs = (next(group for group in groups if chip.physical in group) for chip in (one, other))
        if linked and mine is not theirs:
            groups.remove(theirs)
            mine |= theirs
    return sorted(map(sorted, groups)) if said else None


def _link_problems(
    boards: Sequence[Board], groups: Sequence[Sequence[int]] | None, incomplete: bool
) -> list[str]:
    """Compare with rings and meshes of the profile. The chips of a card are linked by other means."""
    if groups is None or incomplete or len(boards) != 1 or boards[0].ring_kind == "card":
        return []
    expected = [list(ring) for ring in boards[0].rings]
    if not expected or sorted(expected) == list(groups):
        return []
    return [f"linked chips are {groups_text(groups)}; expected {groups_text(expected)}"]


def groups_text(groups: Sequence[Sequence[int]]) -> str:
    return " | ".join(" ".join(map(str, group)) for group in groups)


def _links(board: Board) -> str:
    """Return the groups of chips that are linked, as the profile has them."""
    return f"{board.ring_kind}s: {groups_text(board.rings)}" if board.rings else "no links between chips"
