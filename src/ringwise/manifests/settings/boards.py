"""Board profiles (N1): TOML files, those in `profiles` and those that a user adds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ringwise.grammar import counted
from ringwise.manifests.text.checking import checked, must_be_one_of
from ringwise.manifests.text.errors import (
    MAX_COUNT,
    DocumentError,
    Findings,
    ManifestError,
    document_error,
)
from ringwise.manifests.text.sources import read_file
from ringwise.topology.board import Board, RuleParameter, Table
from ringwise.topology.boards import BoardCatalog, BoardError
from ringwise.topology.counts import parse_counts
from ringwise.topology.natural import natural_key
from ringwise.topology.rule_specs import RULE_SPECS, ParameterKind, RingShape

#: A node's chips are one bit mask; no known node has more chips than this.
MAX_CHIPS = 64
MAX_FILE_BYTES = 64 * 1024
_PROFILES = Path(__file__).parent / "profiles"

_Chip = Annotated[int, Meta(ge=0, le=MAX_CHIPS - 1)]
_ChipCount = Annotated[int, Meta(ge=1, le=MAX_CHIPS)]
_Number = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
_Text = Annotated[str, Meta(min_length=1)]


class _Counts(frozenset[int]):
    """Numbers of chips, written like 1-8,10."""


class _Requests(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    one_pod: _Counts
    multi_pod: _Counts | None = None
    multi_pod_vendor: _Counts | None = None
    zero_chip_pods_need_annotation: bool = False
    total_multiple_of: Annotated[int, Meta(ge=1, le=MAX_COUNT)] = 1


class _Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: _Text
    resources: Annotated[tuple[str, ...], Meta(min_length=1)]
    chips_per_node: _ChipCount
    requests: _Requests
    rule: dict[str, Any]
    title: _Text | None = None
    rings: list[list[_Chip]] = []
    ring_size: _ChipCount | None = None
    ring_kind: _Text = "ring"
    policies: tuple[str, ...] = ()
    accelerator_types: tuple[str, ...] = ()
    job_labels: dict[str, str] = {}
    fallback: Literal["never", "unlabeled", "always"] = "never"
    sp_block_fallback: bool = False
    node_labels: dict[str, str] = {}
    checks_network: bool = False
    superpod: bool = False
    rack_nodes: _Number = 0
    domain_racks: _Number = 0
    notes: tuple[str, ...] = ()


#: Fields of a board that are as they are written.
_SAME = {one.name for one in fields(Board)}.intersection(_Profile.__struct_fields__).difference(
    ("title", "rule", "rings", "job_labels", "node_labels")
)

_PARAMETER_TYPES: dict[ParameterKind, Any] = {
    ParameterKind.TABLE: list[list[Annotated[int, Meta(ge=0, le=MAX_CHIPS)]]],
    ParameterKind.COUNT: _Number,
    ParameterKind.SWITCH: bool,
}


def _value(kind: type, value: object) -> object:
    if not isinstance(value, str):
        raise ValueError('must be a string such as "1-8,10"')
    return kind(parse_counts(value))


def load_board(path: Path | str) -> Board:
    """The board in a profile file. Raises DocumentError."""
    data, file = read_file(Path(path), MAX_FILE_BYTES), str(path)
    try:
        return parse_board(data.decode("utf-8"), file)
    except UnicodeDecodeError as error:
        raise document_error(file, f"is not UTF-8 text (byte {error.start})") from None


def parse_board(text: str, file: str) -> Board:
    """The board in a profile's text; `file` is only its name in messages. Raises DocumentError."""
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise document_error(file, f"is not valid TOML: {error}") from None
    issues = Findings(file)
    board = _board(values, issues)
    if board is None or issues.errors:
        raise DocumentError(issues.errors)
    return board


@cache
def shipped_boards() -> dict[str, Board]:
    """Every board in the package, by name, in natural order. Read once."""
    boards = [load_board(path) for path in _PROFILES.glob("*.toml")]
    boards.sort(key=lambda board: natural_key(board.name))
    return {board.name: board for board in boards}


def shipped_catalog(files: Iterable[Path | str] = ()) -> BoardCatalog:
    """The shipped boards and those in the files. Raises DocumentError with the errors of all files."""
    catalog = BoardCatalog(shipped_boards().values())
    errors: list[ManifestError] = []
    for file in files:
        try:
            catalog.add(load_board(file))
        except BoardError as error:
            errors.append(ManifestError(str(file), error.field, error.why))
        except DocumentError as error:
            errors += error.errors
    if errors:
        raise DocumentError(errors)
    return catalog


def _board(values: object, issues: Findings) -> Board | None:
    profile = checked(values, _Profile, "", issues, _value)
    if profile is None:
        return None
    rings = _rings(profile, issues)
    # Tables have as many columns as the largest ring has chips.
    parameters = () if issues.errors else _parameters(profile, rings, issues)
    requests = profile.requests
    if not requests.one_pod:
        issues.invalid("requests.one_pod", "", "must name at least one count")
    for field in ("one_pod", "multi_pod", "multi_pod_vendor"):
        counts: _Counts | None = getattr(requests, field)
        for count in sorted((counts or _Counts()) - set(range(1, profile.chips_per_node + 1)))[:1]:
            issues.invalid(f"requests.{field}", count, f"must be 1 to {profile.chips_per_node}")
    multi_pod = requests.one_pod if requests.multi_pod is None else requests.multi_pod
    for number, resource in enumerate(profile.resources):
        if not all(resource.partition("/")) or resource.count("/") > 1:
            allowed = "must be the name of a resource, such as huawei.com/Ascend910"
            issues.invalid(f"resources[{number}]", resource, allowed)
    racks = profile.rack_nodes, profile.domain_racks
    if any(racks) and not (all(racks) and profile.superpod):
        issues.add_error(
            "rack_nodes", "requires domain_racks and superpod = true, and each requires rack_nodes"
        )
    return Board(
        **{name: getattr(profile, name) for name in _SAME},
        title=profile.title or profile.name,
        rule=profile.rule.get("name", ""),
        one_pod=requests.one_pod,
        multi_pod=multi_pod,
        multi_pod_vendor=multi_pod if requests.multi_pod_vendor is None else requests.multi_pod_vendor,
        rings=rings,
        parameters=parameters,
        job_labels=tuple(sorted(profile.job_labels.items())),
        node_labels=tuple(sorted(profile.node_labels.items())),
        zero_chip_pods_need_annotation=requests.zero_chip_pods_need_annotation,
        total_multiple_of=requests.total_multiple_of,
    )


def _rings(profile: _Profile, issues: Findings) -> tuple[tuple[int, ...], ...]:
    chips, size = profile.chips_per_node, profile.ring_size
    if size is not None:
        if profile.rings:
            issues.add_error("ring_size", "cannot be combined with rings")
        if chips % size:
            issues.invalid("ring_size", size, f"must divide chips_per_node, {chips}")
        return tuple(tuple(range(start, start + size)) for start in range(0, chips, size))
    owner: dict[int, int] = {}
    for number, ring in enumerate(profile.rings):
        for chip in ring:
            if chip >= chips:
                issues.invalid(f"rings[{number}]", chip, f"must be 0 to {chips - 1}")
            elif chip in owner:
                issues.add_error(f"rings[{number}]", f"chip {chip} is already in rings[{owner[chip]}]")
            owner.setdefault(chip, number)
        if not ring:
            issues.add_error(f"rings[{number}]", "must have at least one chip")
    return tuple(tuple(sorted(ring)) for ring in profile.rings)


def _parameters(
    profile: _Profile, rings: Sequence[Sequence[int]], issues: Findings
) -> tuple[tuple[str, RuleParameter], ...]:
    name = profile.rule.get("name")
    spec = RULE_SPECS.get(name) if isinstance(name, str) else None
    if spec is None:
        issues.invalid("rule.name", name, must_be_one_of(name, RULE_SPECS))
        return ()
    problem = _shape_problem(spec.rings, rings, profile.chips_per_node)
    if problem:
        issues.add_error("rings", f"the rule {spec.name} requires {spec.rings.value}, but {problem}")
        return ()
    required = [(key, one) for key, one in spec.parameters.items() if one.default is None]
    optional = [(key, one) for key, one in spec.parameters.items() if one.default is not None]
    kind = msgspec.defstruct(
        "Rule",
        [
            ("name", str),
            *((key, _PARAMETER_TYPES[one.kind]) for key, one in required),
            *((key, _PARAMETER_TYPES[one.kind], one.default) for key, one in optional),
        ],
        forbid_unknown_fields=True,
    )
    rule = checked(profile.rule, kind, "rule", issues, _value)
    if rule is None:
        return ()
    parameters: list[tuple[str, RuleParameter]] = []
    for key, one in spec.parameters.items():
        value = getattr(rule, key)
        if one.kind is ParameterKind.TABLE:
            value = _table(value, f"rule.{key}", max(map(len, rings)), issues)
        parameters.append((key, value))
    return tuple(parameters)


def _table(rows: list[list[int]], field: str, largest: int, issues: Findings) -> Table:
    """The order of the free counts of a ring, for each request up to the largest ring."""
    if not 1 <= len(rows) <= largest:
        issues.add_error(field, f"must have 1 to {largest} rows, one for each request up to a ring")
    for number, row in enumerate(rows):
        fitting = [cell for cell in row if cell < largest]
        if len(row) != largest or max(row) > largest:
            message = f"must have {largest} numbers from 0 to {largest}, one for each free count"
        elif min((free for free, cell in enumerate(row, 1) if cell < largest), default=largest) <= number:
            message = f"must be {largest} (unfit) for less than {counted(number + 1, 'free chip')}"
        elif len(set(fitting)) < len(fitting):
            message = "must not give two free counts the same place in the order"
        else:
            continue
        issues.add_error(f"{field}[{number}]", message)
    return tuple(map(tuple, rows))


def _shape_problem(shape: RingShape, rings: Sequence[Sequence[int]], chips: int) -> str:
    if shape is RingShape.ANY or (rings and shape is RingShape.SOME):
        return ""
    if not rings:
        return "there are none"
    sizes = sorted({len(ring) for ring in rings})
    if len(sizes) > 1:
        return f"their sizes are {', '.join(map(str, sizes))}"
    if sizes[0] * len(rings) != chips:
        return f"they hold {sizes[0] * len(rings)} of {counted(chips, 'chip')}"
    if shape is RingShape.PAIRS and sizes != [2]:
        return f"they have {counted(sizes[0], 'chip')}"
    if shape is RingShape.TWO_EQUAL and len(rings) != 2:
        return f"there are {len(rings)}"
    return ""
