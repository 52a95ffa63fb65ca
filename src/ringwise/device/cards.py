"""Card types: what a chip's name and board id mean for resource, device names and labels of the node."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ringwise import wellknown
from ringwise.grammar import quoted
from ringwise.records import dataclass

ASCEND910 = "Ascend910"
ASCEND910B = "Ascend910B"
ASCEND910A3 = "Ascend910A3"
ASCEND910A5 = "Ascend910A5"
ASCEND310P = "Ascend310P"
ASCEND310B = "Ascend310B"
ASCEND310 = "Ascend310"

#: Cards whose chips a library in containers can share.
SHARED_CARDS = (ASCEND910B, ASCEND910A3, ASCEND910A5)

_A3_BOARDS = frozenset({0xB0, 0xB1, 0xB2, 0xB3, 0xB4, 0x81, 0x83, 0xD1, 0xD3})
#: 910B cards for inference.
_INFERENCE_BOARDS = frozenset({0x28, 0x29})
#: 910B servers for inference whose chips are not joined: eight chips that are not a module of eight.
_UNJOINED_BOARDS = frozenset({0x33, 0x3C})
#: 910B boards of sixteen chips.
_BOXES_OF_16 = frozenset({0x51, 0x53, 0x54})
#: Products in a slot of a server have such names; how many there are says nothing about a board.
_SLOT_CARD = "Atlas 300"
DUO = "Atlas 300I Duo"
#: A system on a chip, for the edge.
SOC = "Atlas 200I SoC A1"
_STANDARD_CARD = "atlas 350"
_STANDARD_CARD_BOARDS = frozenset({0x1A, 0x1B})
#: What carries A5 standard cards -> chips on a card.
_STANDARD_CARD_CARRIERS = {0x68: 1, 0x6C: 4}
#: A5 standard cards: chips on a card -> `cardType`.
_CARD_TYPES = {1: "300I-Atlas350", 4: "300I-Atlas350-4p"}
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_MAX_LABEL = 63

#: First match counts.
_BY_NAME = (
    (re.compile(r"Ascend950.*"), ASCEND910A5),
    (re.compile(r"(?:310P\d?|I2\d?).*"), ASCEND310P),
    (re.compile(r".*310B.*"), ASCEND310B),
    (re.compile(r".*310.*"), ASCEND310),
    (re.compile(r"(?:910B\d|A2G\d).*"), ASCEND910B),
    (re.compile(r"910.*"), ASCEND910),
)
_DEVICE_TYPES = {
    ASCEND910: "Ascend910",
    ASCEND910B: "Ascend910",
    ASCEND910A3: "Ascend910",
    ASCEND910A5: "npu",
    ASCEND310P: "Ascend310P",
    ASCEND310B: "Ascend310",
    ASCEND310: "Ascend310",
}


class UnknownCardError(Exception):
    """A chip whose type is not known; one line."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip, as its driver describes it."""

    #: Physical id: the number in its name and in /dev/davinci<N>.
    physical: int
    logic: int
    card: int
    device: int
    #: `910B3`, `310P3`, `Ascend950PR`.
    chip_name: str = ""
    #: `Ascend` and `V1`; with the name they are the model.
    chip_type: str = ""
    chip_version: str = ""
    board: int = 0
    #: The board that carries the card: the form of the product.
    mainboard: int = 0
    product: str = ""
    ip: str = ""
    super_device: int = 0
    superpod: int = -2
    server_index: int = -2
    rack: int = 0
    superpod_type: int = -1
    #: Megabytes of HBM.
    memory: int = 0
    ai_cores: int = 0
    pcie: str = ""
    vdie: str = ""
    numa: int | None = None
    #: Whether the driver lets containers share the chip; None if it does not say.
    sharing: bool | None = None
    #: A5: the entity ids of each of its network devices.
    network_ids: tuple[tuple[str, ...], ...] = ()

    @property
    def model(self) -> str:
        """As Huawei's exporter names it: `910B3-Ascend-V1`."""
        return "-".join(part for part in (self.chip_name, self.chip_type, self.chip_version) if part)


def lead(chips: Sequence[Chip]) -> Chip:
    """The chip that speaks for its node: the first one that knows its SuperPoD, else the first one."""
    return next((chip for chip in chips if chip.superpod >= 0), chips[0])


def card_type(chip_name: str, board: int) -> str:
    """The real card type; the board decides for A3, else the name."""
    if board in _A3_BOARDS:
        return ASCEND910A3
    for pattern, card in _BY_NAME:
        if pattern.fullmatch(chip_name):
            return card
    raise UnknownCardError(f"chip {quoted(chip_name)} on board {board:#x} has an unknown type")


def device_type(card: str) -> str:
    """The word in resource and device names."""
    return _DEVICE_TYPES[card]


def resource_of(card: str) -> str:
    return wellknown.CHIP_RESOURCE_PREFIX + device_type(card)


def name_of(card: str, physical: int) -> str:
    return f"{device_type(card)}-{physical}"


def physical_id(name: str) -> int:
    """The number in a chip's name."""
    _, dash, number = name.rpartition("-")
    if not dash or not (number.isascii() and number.isdigit()):
        raise ValueError(f"invalid chip name {quoted(name)}: expected a name such as Ascend910-0")
    return int(number)


def node_labels(
    card: str, chips: Sequence[Chip], driver_version: str, existing: dict[str, str]
) -> dict[str, str]:
    """Labels that describe the node and that it does not have yet. Present ones are never overwritten.

    The board's label is set only where chip and board leave no doubt about it.
    """
    first = lead(chips)
    labels: dict[str, str] = {}
    if card != ASCEND310B:
        labels[wellknown.ACCELERATOR] = f"huawei-{device_type(card)}"
    if first.chip_name:
        labels[wellknown.CHIP_NAME_LABEL] = first.chip_name
    if driver_version:
        labels[wellknown.DRIVER_VERSION_LABEL] = driver_version
    if first.ai_cores:
        kind = "npu" if card == ASCEND910A5 else card
        labels[wellknown.SERVER_TYPE_LABEL] = f"{kind}-{first.ai_cores}"
    if device_type(card) in ("Ascend910", "npu") and first.memory >= 1024:
        labels[wellknown.CHIP_MEMORY_LABEL] = f"{first.memory // 1024}G"
    if chips and all(chip.product == DUO for chip in chips):
        labels[wellknown.INFERENCE_CARD_LABEL] = "card-300i-duo"
    board = accelerator_type(card, chips)
    if board:
        labels[wellknown.ACCELERATOR_TYPE] = board
    if card in (ASCEND910A3, ASCEND910A5) and first.superpod >= 0:
        labels[wellknown.SUPERPOD_LABEL] = str(first.superpod)
        if card == ASCEND910A5 and first.superpod_type in (1, 2):
            labels[wellknown.RACK_LABEL] = str(first.rack)
            labels[wellknown.SERVER_LABEL] = str(first.server_index)
    # One value that is not a label's would make the API server refuse all others, too.
    return {
        key: value
        for key, value in labels.items()
        if key not in existing and len(value) <= _MAX_LABEL and _LABEL_VALUE.fullmatch(value)
    }


def accelerator_type(card: str, chips: Sequence[Chip]) -> str:
    """The board's label where chips and board id leave no doubt about it, else empty."""
    boards = {chip.board for chip in chips}
    count = len(chips)
    if card == ASCEND910B and boards <= _INFERENCE_BOARDS:
        return "card-910b-infer"
    # Chips that are missing, of different boards, or in slots do not tell what they belong to.
    whole = {chip.physical for chip in chips} == set(range(count)) and len(boards) == 1
    if not whole or any(chip.product.startswith(_SLOT_CARD) for chip in chips):
        return ""
    if card == ASCEND910 and count == 8:
        return "module"
    if card == ASCEND910B and 0 not in boards and boards.isdisjoint(_UNJOINED_BOARDS):
        if count == 16:
            return "module-910b-16"
        return "module-910b-8" if count == 8 and boards.isdisjoint(_BOXES_OF_16) else ""
    if card == ASCEND910A3 and count in (8, 16):
        if lead(chips).superpod >= 0:
            return f"module-a3-{count}-super-pod"
        return "module-a3-16" if count == 16 else ""
    return ""


def is_soc(chips: Sequence[Chip]) -> bool:
    return bool(chips) and all(chip.product == SOC for chip in chips)


def chips_per_standard_card(card: str, chips: Sequence[Chip]) -> int:
    """Chips on one A5 standard card, which is in no SuperPoD; 0 for other boards."""
    if card == ASCEND910A5 and chips and chips[0].board in _STANDARD_CARD_BOARDS:
        # The driver numbers chips of A5 boards without cards; what carries them tells how many are joined.
        return _STANDARD_CARD_CARRIERS.get(chips[0].mainboard, 0)
    if card != ASCEND910A5 or not chips or not chips[0].product.lower().startswith(_STANDARD_CARD):
        return 0
    return sum(1 for chip in chips if chip.card == chips[0].card)


def has_network_port(card: str) -> bool:
    """Whether chips of this type have a RoCE port of their own; A5 chips have other links."""
    return card in (ASCEND910, ASCEND910B, ASCEND910A3)


def carries_configuration(card: str, chips: Sequence[Chip]) -> bool:
    """Whether pods of this node have the configuration annotation: training boards, and 300I Duo cards."""
    return device_type(card) in ("Ascend910", "npu") or all(chip.product == DUO for chip in chips)


def node_annotations(card: str, chips: Sequence[Chip], infos: str) -> dict[str, str]:
    """Annotations that the scheduler reads; `infos` is `baseDeviceInfos`."""
    first = lead(chips)
    annotations = {
        wellknown.BASE_DEVICE_INFOS: infos,
        wellknown.SUPERPOD_ANNOTATION: str(first.superpod),
        wellknown.SERVER_INDEX: str(first.server_index),
        wellknown.SERVER_TYPE: {ASCEND910A3: "A3", ASCEND910A5: "npu"}.get(card, ""),
    }
    if card == ASCEND910A5 and first.superpod_type in (1, 2):
        annotations[wellknown.RACK_ANNOTATION] = str(first.rack)
    standard = _CARD_TYPES.get(chips_per_standard_card(card, chips))
    if standard is not None:
        annotations[wellknown.CARD_TYPE] = standard
    return annotations
