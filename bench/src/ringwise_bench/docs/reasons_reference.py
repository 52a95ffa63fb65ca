"""`docs/reference/reasons.md`: every reason Ringwise can give, from the code that gives it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from ringwise import actions, framework, placement, plugins, scheduler, state, topology
from ringwise.reasons import ReasonKind, Stage, general_form, kinds_in

#: The packages that define reasons.
_PACKAGES = (topology, state, placement, framework, plugins, actions, scheduler)

_STAGE_WORDS = {
    Stage.VALIDATE: "Rejected: the job can never run as it is",
    Stage.ENQUEUE: "Not admitted to the queue yet",
    Stage.PREDICATE: "No node fits",
    Stage.PLAN: "No set of nodes fits the whole job",
    Stage.GANG: "The gang is not complete",
}


def all_kinds() -> list[ReasonKind]:
    """All kinds by code; a code stands for one kind only."""
    kinds: dict[str, ReasonKind] = {}
    for kind in _walk():
        known = kinds.setdefault(kind.code, kind)
        if known is not kind:
            raise ValueError(f"two kinds of reasons are called {kind.code}")
    return [kinds[code] for code in sorted(kinds)]


def _walk() -> Iterator[ReasonKind]:
    for package in _PACKAGES:
        yield from kinds_in(vars(package))
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield from kinds_in(vars(importlib.import_module(module.name)))


def reasons_parts() -> dict[str, str]:
    """Those of `docs/reference/reasons.md`."""
    lines: list[str] = []
    for stage in Stage:
        kinds = [kind for kind in all_kinds() if kind.stage is stage]
        if not kinds:
            continue
        lines += ["", f"## {_STAGE_WORDS[stage]}", "", f"PodGroup condition reason: `{stage.value}`."]
        for kind in kinds:
            lines += ["", f"### `{kind.code}`", "", f"> {general_form(kind.sentence)}", ""]
            lines += [f"- {general_form(fix)}" for fix in kind.fixes]
            events = ", ".join(sorted(event.value for event in kind.resolved_by))
            lines += ["", f"Retried when: {events}."]
    return {"reasons": "\n".join(lines)}
