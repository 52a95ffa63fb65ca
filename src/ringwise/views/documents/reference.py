"""The documents of `boards`, `config check`, `bench` and `replay`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ringwise.views.documents.common import Document, Fields, Nanoseconds, doc


class RequestFields(Fields):
    """How many chips a pod may ask for."""

    one_pod: list[int]
    multi_pod: list[int]
    multi_pod_vendor: Annotated[list[int], doc("As in Huawei's documents.")]


class RuleFields(Fields):
    """The rule that chooses the chips of a node."""

    name: str
    fits: str
    score: str
    chips: str
    parameters: dict[str, Any]


class TableFields(Fields):
    """Scores by request (the rows) and free chips (the columns)."""

    title: str
    columns: str
    no_fit_value: int
    rows: dict[str, list[int]]


class BoardFields(Fields):
    """A board: its chips, rings, valid requests and rule."""

    name: str
    title: str
    resources: list[str]
    policies: list[str]
    accelerator_types: list[str]
    job_labels: dict[str, str]
    node_labels: dict[str, str]
    chips_per_node: int
    ring_kind: str
    rings: list[list[int]]
    requests: RequestFields
    checks_network: bool
    superpod: bool
    rack_nodes: int
    domain_racks: int
    rule: RuleFields
    tables: list[TableFields]


class BoardDocument(BoardFields, tag_field="schema", tag="ringwise.io/board/v1"):
    """One board."""


class BoardsDocument(Document, tag="ringwise.io/boards/v1"):
    """All boards."""

    boards: list[BoardFields]


class VersionDocument(Document, tag="ringwise.io/version/v1"):
    """The version of Ringwise."""

    version: str
    commit: Annotated[str | None, doc("Null if it was not built from a release.")]
    schemas: Annotated[dict[str, str], doc("Supported formats with their schema versions.")]


class ConfigurationLineFields(Fields):
    """The effect of one line of the file."""

    line: int
    subject: str
    result: str
    effect: str


class ConfigurationDocument(Document, tag="ringwise.io/configuration/v1"):
    """The effect of each line of a volcano-scheduler.conf."""

    file: str
    valid: bool
    warnings: int
    errors: int
    lines: list[ConfigurationLineFields]


class MachineFields(Fields):
    """Where it was measured."""

    cpu: str
    cores: int | None
    python: str


class FigureFields(Fields):
    """One figure, with its goal if it has one."""

    name: str
    value: float
    unit: str
    goal: str | None
    goal_met: bool | None


class BenchDocument(Document, tag="ringwise.io/bench/v1"):
    """The results of a benchmark."""

    bench: str
    version: Annotated[str, doc("The version of Ringwise.")]
    machine: MachineFields
    duration_seconds: float
    results: list[FigureFields]


class DifferenceFields(Fields):
    """The first command that is not as it was recorded."""

    file: Annotated[str, doc("The file of the journal.")]
    line: int
    now: Nanoseconds
    command: int
    recorded: Annotated[Any, doc("The command in the journal.")]
    decided: Annotated[Any, doc("The command of the replay.")]


class ReplayDocument(Document, tag="ringwise.io/replay/v1"):
    """Whether a replay makes the same decisions as the journal."""

    identical: bool
    recorded_by: str
    batches: int
    events: int
    commands: int
    difference: DifferenceFields | None
    note: str | None


class ReplacedFields(Fields):
    """How much got a pseudonym."""

    names: int
    addresses: int


class BundledJournalFields(Fields):
    """A journal in a support bundle."""

    file: str
    batches: int
    events: int


class CheckedChipFields(Fields):
    """The data that the driver reports for one chip."""

    id: Annotated[int, doc("Physical ID.")]
    name: Annotated[str, doc("Model of the chip.")]
    answers: Annotated[bool, doc("Whether the driver reports its faults.")]
    faults: Annotated[dict[str, str], doc("Fault codes with their levels.")]
    network: Literal["up", "down", "unknown"]
    memory_megabytes: int
    memory_used_megabytes: float | None
    ai_cores: int
    sharing: Annotated[bool | None, doc("Whether containers can share the chip.")]


class HardwareCheckDocument(Document, tag="ringwise.io/hardware-check/v1"):
    """The NPUs of one node as the driver reports them, without names and addresses."""

    ringwise: Annotated[str, doc("Version that created it.")]
    driver: Annotated[str, doc("Driver interface: dcmi, npu-smi or simulated.")]
    driver_version: str
    card_type: str
    resource: str
    board_ids: list[str]
    products: list[str]
    superpod: Annotated[bool, doc("Whether the driver reports a SuperPoD.")]
    accelerator_type: Annotated[str, doc("Label of the node; empty if it is unknown.")]
    boards: Annotated[list[str], doc("Board profiles that match the node.")]
    links: Annotated[str, doc("Linked chips of the board profile.")]
    driver_links: Annotated[
        list[list[int]] | None,
        doc("Groups of chips linked by HCCS or UB; null if the driver does not report them."),
    ]
    chips: list[CheckedChipFields]
    problems: list[str]


class SupportBundleDocument(Document, tag="ringwise.io/support-bundle/v1"):
    """The content of a support bundle."""

    ringwise: Annotated[str, doc("Version that created it.")]
    source: Literal["files", "lab", "cluster"]
    names: Literal["replaced", "kept"]
    replaced: ReplacedFields
    objects: Annotated[dict[str, int], doc("Number of objects by kind.")]
    journals: list[BundledJournalFields]
    excluded: Annotated[str, doc("Data that is never included.")]
    omitted: Annotated[list[str], doc("Objects that are not used for decisions.")]
    missing: Annotated[list[str], doc("What could not be read or listed, or is too large.")]
