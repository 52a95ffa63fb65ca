"""Board profiles (rule N1): TOML files, read and checked field by field."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ringwise.grammar import counted
from ringwise.topology.board import Board, BoardError, Labels, RuleParameter, Table
from ringwise.topology.counts import parse_counts
from ringwise.topology.nearest import did_you_mean, nearest
from ringwise.topology.rule_specs import RULE_SPECS, ParameterKind, ParameterSpec, RingShape, RuleSpec

#: A node's chips are one bit mask; no known node has more chips than this.
MAX_CHIPS = 64
MAX_FILE_BYTES = 64 * 1024

_FIELDS = (
    "name",
    "title",
    "resources",
    "chips_per_node",
    "rings",
    "ring_size",
    "ring_word",
    "policies",
    "accelerator_types",
    "job_labels",
    "fallback",
    "sp_block_fallback",
    "node_labels",
    "watches_network",
    "superpod",
    "rack_nodes",
    "domain_racks",
    "notes",
    "requests",
    "rule",
)
_REQUEST_FIELDS = (
    "one_pod",
    "multi_pod",
    "multi_pod_vendor",
    "zero_chip_pods_need_annotation",
    "total_multiple_of",
)
_FALLBACKS = ("never", "unlabelled", "always")

Read = TypeVar("Read")


def load_board(path: Path | str) -> Board:
    """The board in a profile file. Raises BoardError, whose lines name file and field."""
    path = Path(path)
    file = str(path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise BoardError(file, "", f"larger than {MAX_FILE_BYTES // 1024} KiB, which no board profile is")
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise BoardError(file, "", f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BoardError(file, "", f"is not UTF-8 text (byte {error.start})") from error
    return parse_board(text, file)


def parse_board(text: str, file: str) -> Board:
    """The board in a profile's text; `file` is only its name in messages."""
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BoardError(file, "", f"is not valid TOML: {error}") from error
    return _Profile(file, "", values).board()


class _Profile:
    """One table of a profile. Every getter checks the type and names the field in its error."""

    def __init__(
        self, file: str, prefix: str, values: Mapping[str, Any], problems: list[BoardError] | None = None
    ) -> None:
        self.file = file
        self.prefix = prefix
        self.values = values
        #: What was wrong so far: all of it is told at once.
        self.problems: list[BoardError] = [] if problems is None else problems
        #: Fields for which another word was written: that they are missing is not told beside it.
        self.misspelt: set[str] = set()

    def error(self, field: str, why: str) -> BoardError:
        return BoardError(self.file, self.prefix + field, why)

    def attempt(self, read: Callable[[], Read], otherwise: Read) -> Read:
        """What is read; where that is wrong, `otherwise`, and the problem is kept."""
        try:
            return read()
        except BoardError as problem:
            known = {str(one) for one in self.problems}
            meant = problem.field in {self.prefix + field for field in self.misspelt - self.values.keys()}
            if str(problem) not in known and not meant:
                self.problems.append(problem)
            return otherwise

    def board(self) -> Board:
        """Raises BoardError with everything that is wrong."""
        self.known(_FIELDS)
        chips = self.attempt(self.chips, 0)
        rings = self.attempt(lambda: self.rings(chips), None) if chips else None
        rule, parameters = self.rule(rings, chips)
        requests = self.attempt(lambda: self.table("requests"), None)
        one_pod = multi_pod = multi_pod_vendor = frozenset[int]()
        needs_annotation, total_multiple_of = False, 1
        if requests is not None:
            # A board whose chips are not known takes any count.
            most = chips or MAX_CHIPS
            requests.known(_REQUEST_FIELDS)
            one_pod = requests.attempt(lambda: requests.counts("one_pod", most, None), one_pod)
            multi_pod = requests.attempt(lambda: requests.counts("multi_pod", most, one_pod), one_pod)
            multi_pod_vendor = requests.attempt(
                lambda: requests.counts("multi_pod_vendor", most, multi_pod), multi_pod
            )
            needs_annotation = requests.attempt(
                lambda: requests.switch("zero_chip_pods_need_annotation", False), False
            )
            total_multiple_of = max(1, requests.attempt(lambda: requests.count("total_multiple_of", 1), 1))
        name = self.attempt(lambda: self.text("name", None), "-")
        rack_nodes, domain_racks = self.attempt(self.racks, (0, 0))
        board = Board(
            name=name,
            title=self.attempt(lambda: self.text("title", name), name),
            resources=self.attempt(self.resources, ()),
            chips_per_node=chips,
            rule="" if rule is None else rule.name,
            one_pod=one_pod,
            multi_pod=multi_pod,
            multi_pod_vendor=multi_pod_vendor,
            rings=rings or (),
            ring_word=self.attempt(lambda: self.text("ring_word", "ring"), ""),
            parameters=parameters,
            policies=self.attempt(lambda: self.texts("policies"), ()),
            accelerator_types=self.attempt(lambda: self.texts("accelerator_types"), ()),
            job_labels=self.attempt(lambda: self.labels("job_labels"), ()),
            fallback=self.attempt(self.fallback, "never"),
            sp_block_fallback=self.attempt(lambda: self.switch("sp_block_fallback", False), False),
            node_labels=self.attempt(lambda: self.labels("node_labels"), ()),
            watches_network=self.attempt(lambda: self.switch("watches_network", False), False),
            superpod=self.attempt(lambda: self.switch("superpod", False), False),
            rack_nodes=rack_nodes,
            domain_racks=domain_racks,
            zero_chip_pods_need_annotation=needs_annotation,
            total_multiple_of=total_multiple_of,
            notes=self.attempt(lambda: self.texts("notes"), ()),
        )
        if self.problems:
            raise BoardError.of(self.problems)
        return board

    def known(self, fields: Iterable[str]) -> None:
        allowed = tuple(fields)
        for key in self.values:
            if key not in allowed:
                meant = nearest(key, allowed)
                self.misspelt |= {meant} if meant is not None else set()
                self.problems.append(self.error(key, f"no such field{did_you_mean(key, allowed)}"))

    def chips(self) -> int:
        chips = self.count("chips_per_node", None)
        if not 1 <= chips <= MAX_CHIPS:
            raise self.error("chips_per_node", f"{chips} is not between 1 and {MAX_CHIPS}")
        return chips

    def fallback(self) -> str:
        fallback = self.text("fallback", "never")
        if fallback not in _FALLBACKS:
            raise self.error("fallback", f"'{fallback}' is none of {', '.join(_FALLBACKS)}")
        return fallback

    def get(self, field: str, default: Any, kind: type, what: str) -> Any:
        value = self.values.get(field, default)
        if value is None:
            raise self.error(field, f"is missing: {what} is needed")
        # bool is an int to Python, but not to a person who writes a profile.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(field, f"must be {what}, not {_shown(value)}")
        return value

    def text(self, field: str, default: str | None) -> str:
        value: str = self.get(field, default, str, "a text")
        if not value.strip():
            raise self.error(field, "must not be empty")
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        values = self.get(field, [], list, "a list of texts")
        for value in values:
            if not isinstance(value, str):
                raise self.error(field, f"must be a list of texts, not one with {_shown(value)}")
        if len(set(values)) != len(values):
            raise self.error(field, "names one value twice")
        return tuple(values)

    def switch(self, field: str, default: bool) -> bool:
        value: bool = self.get(field, default, bool, "true or false")
        return value

    def count(self, field: str, default: int | None) -> int:
        value: int = self.get(field, default, int, "a whole number, 0 or more")
        if value < 0:
            raise self.error(field, f"must be 0 or more, not {value}")
        return value

    def labels(self, field: str) -> Labels:
        labels = self.get(field, {}, dict, "a table of labels")
        for key, value in labels.items():
            if not isinstance(value, str):
                raise self.error(f"{field}.{key}", f"must be a text, not {_shown(value)}")
        return tuple(sorted(labels.items()))

    def table(self, field: str) -> _Profile:
        values = self.get(field, None, dict, f"a [{field}] table")
        return _Profile(self.file, f"{self.prefix}{field}.", values, self.problems)

    def counts(self, field: str, chips: int, default: frozenset[int] | None) -> frozenset[int]:
        if field not in self.values and default is not None:
            return default
        text = self.get(field, None, str, 'a text like "1-8,10"')
        try:
            counts = parse_counts(text)
        except ValueError as error:
            raise self.error(field, str(error)) from error
        for count in sorted(counts):
            if not 1 <= count <= chips:
                raise self.error(
                    field, f"a request of {count} is impossible on a board of {counted(chips, 'chip')}"
                )
        if default is None and not counts:
            raise self.error(field, "allows nothing: name at least one count")
        return counts

    def resources(self) -> tuple[str, ...]:
        resources = self.texts("resources")
        if not resources:
            raise self.error("resources", "is missing: name at least one, like huawei.com/Ascend910")
        for resource in resources:
            domain, slash, kind = resource.partition("/")
            if not (domain and slash and kind) or "/" in kind:
                raise self.error("resources", f"'{resource}' is no resource name like huawei.com/Ascend910")
        return resources

    def racks(self) -> tuple[int, int]:
        """Nodes of a rack and racks of a domain: of SuperPoD boards alone, and both or neither."""
        counts = self.count("rack_nodes", 0), self.count("domain_racks", 0)
        if any(counts) and not self.switch("superpod", False):
            field = "rack_nodes" if counts[0] else "domain_racks"
            raise self.error(field, "racks stand in SuperPoDs: set superpod = true")
        if any(counts) and not all(counts):
            raise self.error(
                "rack_nodes", "give both rack_nodes and domain_racks, each 1 or more, or neither"
            )
        return counts

    def rings(self, chips: int) -> tuple[tuple[int, ...], ...]:
        if "ring_size" in self.values:
            if "rings" in self.values:
                raise self.error("ring_size", "give either rings or ring_size, not both")
            size = self.count("ring_size", None)
            if size < 1 or chips % size:
                raise self.error("ring_size", f"{size} does not divide the board's {counted(chips, 'chip')}")
            return tuple(tuple(range(start, start + size)) for start in range(0, chips, size))
        rings: list[tuple[int, ...]] = []
        owner: dict[int, int] = {}
        for number, ring in enumerate(self.get("rings", [], list, "a list of lists of chip ids")):
            field = f"rings[{number}]"
            if not isinstance(ring, list) or not ring:
                raise self.error(field, f"must be a list of chip ids, not {_shown(ring)}")
            for chip in ring:
                if not isinstance(chip, int) or isinstance(chip, bool):
                    raise self.error(field, f"must hold chip ids, not {_shown(chip)}")
                if not 0 <= chip < chips:
                    raise self.error(field, f"chip {chip} is beyond the board's chips 0..{chips - 1}")
                if chip in owner:
                    where = "itself" if owner[chip] == number else f"rings[{owner[chip]}]"
                    raise self.error(field, f"chip {chip} overlaps with {where}: a chip is in one ring only")
                owner[chip] = number
            rings.append(tuple(sorted(ring)))
        return tuple(rings)

    def rule(
        self, rings: tuple[tuple[int, ...], ...] | None, chips: int
    ) -> tuple[RuleSpec | None, tuple[tuple[str, RuleParameter], ...]]:
        """Without `rings`, which could not be read, only what does not depend on them is checked."""
        table = self.attempt(lambda: self.table("rule"), None)
        spec = None if table is None else self.attempt(table.rule_spec, None)
        if table is None or spec is None:
            return None, ()
        table.known(("name", *spec.parameters))
        if rings is None:
            return spec, ()
        problem = _shape_problem(spec.rings, rings, chips)
        if problem:
            self.problems.append(
                self.error("rings", f"the rule {spec.name} needs {spec.rings.value}, but {problem}")
            )
            return spec, ()
        largest = max((len(ring) for ring in rings), default=0)
        parameters: list[tuple[str, RuleParameter]] = []
        otherwise: RuleParameter = False
        for key, parameter in spec.parameters.items():
            read = functools.partial(table.parameter, key, parameter, largest)
            parameters.append((key, table.attempt(read, otherwise)))
        return spec, tuple(parameters)

    def rule_spec(self) -> RuleSpec:
        name = self.text("name", None)
        spec = RULE_SPECS.get(name)
        if spec is None:
            raise self.error(
                "name",
                f"unknown rule '{name}'{did_you_mean(name, RULE_SPECS)}; known: {', '.join(RULE_SPECS)}",
            )
        return spec

    def parameter(self, field: str, parameter: ParameterSpec, largest_ring: int) -> RuleParameter:
        if parameter.kind is ParameterKind.SWITCH:
            return self.switch(field, bool(parameter.default))
        if parameter.kind is ParameterKind.COUNT:
            return self.count(field, parameter.default)
        return self.score_table(field, largest_ring)

    def score_table(self, field: str, largest_ring: int) -> Table:
        rows = self.get(field, None, list, ParameterKind.TABLE.value)
        if not rows or len(rows) > largest_ring:
            raise self.error(field, f"must have 1 to {largest_ring} rows, one for each request up to a ring")
        for number, row in enumerate(rows):
            where = f"{field}[{number}]"
            if not isinstance(row, list) or len(row) != largest_ring:
                raise self.error(where, f"must be a list of {largest_ring} numbers, one for each free count")
            for cell in row:
                if not isinstance(cell, int) or isinstance(cell, bool) or not 0 <= cell <= largest_ring:
                    raise self.error(where, f"must hold numbers 0..{largest_ring}, not {_shown(cell)}")
            for free, cell in enumerate(row, start=1):
                if free <= number and cell < largest_ring:
                    raise self.error(
                        where,
                        f"lets {counted(number + 1, 'chip')} fit into {free} free ones; write "
                        f"{largest_ring} for unfit",
                    )
            fitting = [cell for cell in row if cell < largest_ring]
            if len(set(fitting)) != len(fitting):
                raise self.error(where, "gives two free counts the same place in the order")
        return tuple(tuple(row) for row in rows)


def _shape_problem(shape: RingShape, rings: tuple[tuple[int, ...], ...], chips: int) -> str | None:
    if shape is RingShape.ANY:
        return None
    if not rings:
        return "there are none"
    if shape is RingShape.SOME:
        return None
    sizes = sorted({len(ring) for ring in rings})
    if len(sizes) > 1:
        return f"their sizes are {', '.join(map(str, sizes))}"
    if sum(len(ring) for ring in rings) != chips:
        return f"they hold {sum(len(ring) for ring in rings)} of {counted(chips, 'chip')}"
    if shape is RingShape.PAIRS and sizes != [2]:
        return f"they have {counted(sizes[0], 'chip')}"
    if shape is RingShape.TWO_EQUAL and len(rings) != 2:
        return f"there are {len(rings)}"
    return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
