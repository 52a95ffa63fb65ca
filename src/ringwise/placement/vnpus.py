"""Fit and score of dynamic vNPUs on the chips of one node (rules V11 to V16)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ringwise.placement.reasons import (
    NO_AVAILABLE_CHIP,
    NO_CHIP_HAS_ROOM,
    NO_SUCH_TEMPLATE,
    OTHER_TEMPLATE_NOT_SETTLED,
)
from ringwise.placement.shares import PartFit
from ringwise.reasons import ReasonKind
from ringwise.state.chip_amounts import ChipAmounts, ChipUse
from ringwise.state.model import PartRequest
from ringwise.topology.chips import chips_of
from ringwise.topology.vnpu_templates import (
    DOWNGRADES,
    FAMILY_310P,
    FAMILY_OF_RING,
    MAX_VGROUPS,
    NO_DVPP,
    OWN_DVPP,
    DividedChip,
    Template,
)

#: A template is set aside on a chip after a vNPU of it could not be created; this stands for all templates.
EVERY_TEMPLATE = "*"
#: V15: more than the cores of any node, and what a node gets that needs no downgrade.
_CORES, _NO_DOWNGRADE = 2047, 2048
_CORES_AT_THREE_VGROUPS = 2


def takes_request(kind: DividedChip, request: PartRequest) -> bool:
    """Whether chips of this kind take the request at all (V10, V11)."""
    return kind.family == FAMILY_OF_RING.get(request.ring) and kind.takes(
        request.count, request.dvpp, request.level
    )


def fit_vnpu(
    request: PartRequest,
    kind: DividedChip,
    book: ChipAmounts,
    available: int,
    idle: int,
    failed: Collection[tuple[int, str]],
) -> PartFit | ReasonKind:
    """The chips of a vNPU with its template, or why the node takes none."""
    if not takes_request(kind, request):
        return NO_SUCH_TEMPLATE
    chips = chips_of(available)
    if not chips:
        return NO_AVAILABLE_CHIP
    template = kind.template(request.count, request.dvpp, request.level)
    if template is None:
        return _fit_whole_chips(request.count // kind.cores, book, chips, idle, failed)
    score = _CORES - idle + _NO_DOWNGRADE
    fitting = _chips_for(template, kind, book, chips, failed)
    if not fitting and template.name in DOWNGRADES:
        template = kind.templates[DOWNGRADES[template.name]]
        fitting = _chips_for(template, kind, book, chips, failed)
        score -= _NO_DOWNGRADE
    if not fitting:
        return NO_CHIP_HAS_ROOM
    if any(other.template != template.name for other in book.unsettled):
        return OTHER_TEMPLATE_NOT_SETTLED
    chosen = min(fitting, key=lambda chip: (-book.on(chip).cores, -book.on(chip).cpus, chip))
    return PartFit(score, (chosen,), template.name)


def _fit_whole_chips(
    count: int, book: ChipAmounts, chips: tuple[int, ...], idle: int, failed: Collection[tuple[int, str]]
) -> PartFit | ReasonKind:
    free = [chip for chip in chips if chip not in book.chips and (chip, EVERY_TEMPLATE) not in failed]
    if len(free) < count:
        return NO_CHIP_HAS_ROOM
    if book.unsettled:
        return OTHER_TEMPLATE_NOT_SETTLED
    return PartFit(_CORES - idle + _NO_DOWNGRADE, tuple(free[:count]))


def _chips_for(
    template: Template,
    kind: DividedChip,
    book: ChipAmounts,
    chips: tuple[int, ...],
    failed: Collection[tuple[int, str]],
) -> list[int]:
    return [
        chip
        for chip in chips
        if (chip, EVERY_TEMPLATE) not in failed
        and (chip, template.name) not in failed
        and _has_room(template, kind, book.on(chip))
    ]


def _has_room(template: Template, kind: DividedChip, use: ChipUse) -> bool:
    """Rule V12."""
    if use.entire or use.unsettled:
        return False
    if use.cores + template.cores > kind.cores or use.cpus + template.cpus > kind.cpus:
        return False
    if template.dvpp == OWN_DVPP and any(one != NO_DVPP for one in use.dvpp):
        return False
    if template.dvpp != NO_DVPP and OWN_DVPP in use.dvpp:
        return False
    if kind.family != FAMILY_310P or len(use.vgroups) < MAX_VGROUPS - 1:
        return True
    return template.cores <= (_CORES_AT_THREE_VGROUPS if len(use.vgroups) < MAX_VGROUPS else 1)


def room_for(
    request: PartRequest,
    kind: DividedChip,
    use: ChipUse,
    chip: int,
    failed: Collection[tuple[int, str]],
    *,
    used: bool,
) -> int:
    """How many such vNPUs a chip takes, one after the other. `used`: a pod is on it."""
    if (chip, EVERY_TEMPLATE) in failed:
        return 0
    template = kind.template(request.count, request.dvpp, request.level)
    if template is None:
        return 0 if used else 1
    while (chip, template.name) in failed or not _has_room(template, kind, use):
        if template.name not in DOWNGRADES:
            return 0
        template = kind.templates[DOWNGRADES[template.name]]
    count, filled = 0, replace(use)
    while _has_room(template, kind, filled):
        filled.cores += template.cores
        filled.cpus += template.cpus
        filled.dvpp += (template.dvpp,)
        count += 1
    return count
