"""Rule N1: which board serves a job, by its resource, annotations, labels and node selector."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from functools import lru_cache

from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.board import Board
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.nearest import nearest
from ringwise.topology.reasons import (
    POLICY_NEEDED,
    POLICY_NOT_SUPPORTED,
    UNKNOWN_ACCELERATOR_TYPE,
    UNKNOWN_POLICY,
    UNKNOWN_RESOURCE,
    UNKNOWN_STRATEGY,
    VIRTUAL_CHIPS,
)
from ringwise.wellknown import CHIP_RESOURCE_FAMILIES, NPU, SCHEDULE_POLICY, SP_BLOCK

#: Resources whose board only the policy selects, whatever else the job has.
POLICY_ONLY = frozenset({NPU})
#: Policies of Huawei's plugin that are recognized and not supported.
UNSUPPORTED_POLICIES: Mapping[str, str] = {
    "multilevel": "a tree of network levels",
}
#: The policy of jobs that request soft shares of chips.
SOFT_SHARE_POLICY = "chip1-softShareDev"
_STATIC = re.compile(r"huawei\.com/(Ascend910|Ascend310P)-\d+c(\.\w+)*", re.ASCII)
_VIRTUAL = re.compile(r"huawei\.com/(npu-core|Ascend\w+-\d+c(\.\w+)*)")


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """What selects the board of a job. Annotations: the PodGroup's, else one pod's."""

    resource: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    #: That its pods select; empty: none.
    accelerator_type: str = ""


@lru_cache(maxsize=1024)
def is_part_of_a_chip(resource: str) -> bool:
    """Whether a resource counts cores or parts of chips (vNPUs), not chips."""
    return _VIRTUAL.fullmatch(resource) is not None


def is_static_part(resource: str) -> bool:
    """Whether a resource counts static vNPUs."""
    return _STATIC.fullmatch(resource) is not None


def is_chip_resource(resource: str) -> bool:
    """Whether a resource counts whole chips, or percents of chips on nodes with soft shares."""
    return resource.startswith(CHIP_RESOURCE_FAMILIES) and not is_part_of_a_chip(resource)


def select_board(catalog: BoardCatalog, facts: PolicyFacts) -> Board | Reason:
    """Rule N1: the board that serves a job, or why none does.

    For resources whose boards are chosen by policy or accelerator type: first
    `huawei.com/schedule_policy`, then `sp-block`, then the node selector
    `accelerator-type`. Huawei's plugin silently ignores an unknown policy and continues
    with the next step. So does this function if a later step selects a board; if only the
    default board would be left, the job is rejected instead, because a mistyped policy
    must not put it on another board than the one it names.
    For other resources (310, 310P) the job's labels decide.
    """
    serving = catalog.serving(facts.resource)
    if not serving:
        return _unknown_resource(catalog, facts.resource)
    if any(board.policies or board.accelerator_types for board in serving):
        return _by_policy(facts, serving)
    return _by_labels(facts, serving)


def _by_policy(facts: PolicyFacts, serving: tuple[Board, ...]) -> Board | Reason:
    policy = facts.annotations.get(SCHEDULE_POLICY, "")
    policies = {name: board for board in serving for name in board.policies}
    if policy in policies:
        return policies[policy]
    if policy in UNSUPPORTED_POLICIES:
        return POLICY_NOT_SUPPORTED(
            policy=policy, what=UNSUPPORTED_POLICIES[policy], allowed=tuple(sorted(policies))
        )
    types = {name: board for board in serving for name in board.accelerator_types}
    if facts.resource in POLICY_ONLY:
        return _no_policy(facts.resource, policy, policies)
    chosen = facts.accelerator_type
    if SP_BLOCK in facts.annotations:
        board = _superpod_board(serving, chosen)
        if board is not None:
            return board
    if not chosen:
        default = types.get("") or next((board for board in serving if board.fallback != "never"), None)
        if policy or default is None:
            return _no_policy(facts.resource, policy, policies)
        return default
    board = _board_of_type(types, chosen)
    if board is None:
        allowed = tuple(sorted(name for name in types if name))
        return _suggesting(
            UNKNOWN_ACCELERATOR_TYPE(
                type=chosen, resource=facts.resource, allowed=allowed, policies=tuple(sorted(policies))
            ),
            chosen,
            allowed,
        )
    return board


def _superpod_board(serving: tuple[Board, ...], chosen: str) -> Board | None:
    """The SuperPoD board of the selected accelerator type, else the one `sp-block` alone means."""
    for board in serving:
        if board.superpod and chosen and chosen in board.accelerator_types:
            return board
    return next((board for board in serving if board.sp_block_fallback), None)


def _board_of_type(types: Mapping[str, Board], chosen: str) -> Board | None:
    """The board of an accelerator type. A name spelled out wins over a pattern."""
    if chosen in types:
        return types[chosen]
    for pattern, board in types.items():
        if "*" in pattern and fnmatchcase(chosen, pattern):
            return board
    return None


def _by_labels(facts: PolicyFacts, serving: tuple[Board, ...]) -> Board | Reason:
    matching = [
        board
        for board in serving
        if board.job_labels and all(facts.labels.get(key) == value for key, value in board.job_labels)
    ]
    if matching:
        return max(matching, key=lambda board: len(board.job_labels))
    fallback = next((board for board in serving if board.fallback != "never"), None)
    choosing = {key for board in serving for key, _ in board.job_labels}
    labels = {key: facts.labels[key] for key in sorted(choosing) if key in facts.labels}
    if fallback is not None and (fallback.fallback == "always" or not labels):
        return fallback
    allowed = tuple(
        " and ".join(f"{key}={value}" for key, value in board.job_labels)
        for board in serving
        if board.job_labels
    )
    return UNKNOWN_STRATEGY(
        labels=tuple(f"{key}={value}" for key, value in labels.items()),
        resource=facts.resource,
        allowed=allowed,
        default=fallback.name if fallback else "none",
    )


def _unknown_resource(catalog: BoardCatalog, resource: str) -> Reason:
    allowed = catalog.resources
    if is_part_of_a_chip(resource):
        return VIRTUAL_CHIPS(resource=resource, allowed=allowed)
    return _suggesting(UNKNOWN_RESOURCE(resource=resource, allowed=allowed), resource, allowed)


def _no_policy(resource: str, policy: str, policies: Mapping[str, Board]) -> Reason:
    allowed = tuple(sorted(policies))
    if not policy:
        return POLICY_NEEDED(resource=resource, allowed=allowed)
    reason = UNKNOWN_POLICY(policy=policy, resource=resource, allowed=allowed)
    return _suggesting(reason, policy, allowed)


def _suggesting(reason: Reason, word: str, allowed: Iterable[str]) -> Reason:
    return reason.suggesting(nearest(word, (name for name in allowed if "*" not in name)))
