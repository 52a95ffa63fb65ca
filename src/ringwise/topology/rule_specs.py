"""The chip rules that a board profile may name, with their parameters (rule N1).

The rules themselves are in `placement.rules`. Their names and parameters are defined
here, below them, so that an invalid profile is reported when it is read, with its file
and field, and not when the first job arrives.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field

from ringwise.records import dataclass


class RingShape(enum.Enum):
    """What a rule requires of a board's rings."""

    ANY = "rings are ignored"
    SOME = "at least one ring"
    EQUAL = "rings of one size that hold every chip"
    PAIRS = "rings of two chips that hold every chip"
    TWO_EQUAL = "exactly two rings of one size that hold every chip"


class ParameterKind(enum.Enum):
    TABLE = "a table: one row for each request, one column for each free count of a ring"
    COUNT = "a whole number, 0 or more"
    SWITCH = "true or false"


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    kind: ParameterKind
    #: None: the profile must give it.
    default: int | bool | None = None


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """One rule, for profiles and the reference page."""

    name: str
    fits: str
    score: str
    chooses: str
    rings: RingShape = RingShape.ANY
    parameters: Mapping[str, ParameterSpec] = field(default_factory=dict)


_SPECS = (
    RuleSpec(
        "ring-groups",
        fits="one ring has enough free chips, or, for a whole node, all chips are free",
        score="chips x (groups x allocatable - group) + (chips - free), group from the table, A = 0; with "
        "ring-packing: tight-node groups x ((chips + 1) x allocatable + chips - free) + groups - 1 - group",
        chooses="the ring whose free count is first in the table's order, the left one on a tie; lowest IDs",
        rings=RingShape.SOME,
        parameters={"table": ParameterSpec(ParameterKind.TABLE)},
    ),
    RuleSpec(
        "free-count",
        fits="enough chips are free anywhere on the node",
        score="100 x (chips - faulty) - free",
        chooses="lowest IDs",
        parameters={"faults_lower_score": ParameterSpec(ParameterKind.SWITCH, True)},
    ),
    RuleSpec(
        "paired-rings",
        fits="up to the size of a ring: one ring has enough free chips; more: half of them in each ring "
        "(one-pod jobs at the same positions, multi-pod jobs at any); all: the whole node",
        score="chips x (allocatable - misfit) + (chips - free)",
        chooses="the ring with the fewest spare chips, left on a tie, lowest IDs; "
        "for more than a ring, left and right alternately",
        rings=RingShape.TWO_EQUAL,
    ),
    RuleSpec(
        "two-chip-cards",
        fits="one chip: any; more: completely free cards",
        score="16 x (32 - misfit), misfit = free - request, "
        "plus whole_card_penalty if one chip is taken from a completely free card",
        chooses="one chip: the card with the fewest free chips; more: whole cards; lowest IDs",
        rings=RingShape.PAIRS,
        parameters={"whole_card_penalty": ParameterSpec(ParameterKind.COUNT, 16)},
    ),
    RuleSpec(
        "meshes",
        fits="less than a mesh: one mesh has enough free chips; whole meshes: enough completely free meshes; "
        "other requests: enough free chips",
        score="up to a mesh and whole meshes: k x (k - chips x spare meshes - misfit), k = chips x meshes; "
        "other requests: chips x (chips - misfit)",
        chooses="less than a mesh: the mesh with the fewest spare chips; whole meshes in the order of IDs; "
        "otherwise lowest IDs",
        rings=RingShape.EQUAL,
    ),
    RuleSpec(
        "one-card",
        fits="one card has enough free chips",
        score="8 x (chips per card - misfit of the best card), misfit from the table",
        chooses="the card whose free count is first in the table's order; lowest IDs",
        rings=RingShape.SOME,
        parameters={"table": ParameterSpec(ParameterKind.TABLE)},
    ),
    RuleSpec(
        "broken-cards-first",
        fits="enough chips are free anywhere on the node",
        score="100 x chips - free, or 0 if the profile sets scored = false",
        chooses="the cards with the fewest free chips first, across cards; lowest IDs",
        rings=RingShape.SOME,
        parameters={"scored": ParameterSpec(ParameterKind.SWITCH, True)},
    ),
    RuleSpec(
        "whole-cards",
        fits="even: completely free cards; odd: one more chip, from a partly used card if possible",
        score="8 x (16 - misfit), misfit from the tables; 0 above table_chips free chips",
        chooses="odd requests: one chip of the first partly used card, then whole cards; lowest IDs",
        rings=RingShape.PAIRS,
        parameters={"table_chips": ParameterSpec(ParameterKind.COUNT, 8)},
    ),
)

RULE_SPECS: Mapping[str, RuleSpec] = {spec.name: spec for spec in _SPECS}
