"""A finding: a problem of a cluster, with its place and its fix."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from ringwise.grammar import plural
from ringwise.reasons import Reason
from ringwise.records import dataclass

ERROR, WARNING, NOTE = "error", "warning", "note"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: str
    code: str
    object: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Subject:
    """What findings are about: a kind and a name, such as `node a`."""

    text: str

    def error(self, code: str, message: str, fix: str) -> Finding:
        return Finding(ERROR, code, self.text, message, fix)

    def warning(self, code: str, message: str, fix: str) -> Finding:
        return Finding(WARNING, code, self.text, message, fix)

    def note(self, code: str, message: str, fix: str) -> Finding:
        return Finding(NOTE, code, self.text, message, fix)

    def refused(self, severity: str, reason: Reason) -> Finding:
        """Return the reason as a finding, with the first of its fixes."""
        return Finding(severity, reason.code, self.text, reason.message, next(iter(reason.fixes), ""))


#: Names of one finding that are all written out; of more, so many are examples.
_NAMED, _EXAMPLES = 8, 3
#: Findings of one kind that differ in details, such as names of pods, and are all shown.
_ALIKE = 8
_PLURAL = {"is": "are", "has": "have", "was": "were", "offers": "offer", "reports": "report", "names": "name"}


def named(names: Sequence[str], word: str) -> str:
    """`node a`, `3 nodes (a, b, c)`, `4,860 nodes, for example a, b, c`"""
    if len(names) == 1:
        return f"{word} {names[0]}"
    many = f"{len(names):,} {plural(word)}"
    if len(names) > _NAMED:
        return f"{many}, for example {', '.join(names[:_EXAMPLES])}"
    return f"{many} ({', '.join(names)})"


def folded(findings: Iterable[Finding]) -> list[Finding]:
    """Merge equal findings about several objects into one, with examples.

    Many that differ only in their details become one, with the first as an example.
    """
    same: dict[Hashable, list[Finding]] = {}
    for finding in findings:
        kind, _, name = finding.object.partition(" ")
        key: Hashable = finding
        if name:
            what, fix = (_instead(text, name, "\0") for text in (finding.message, finding.fix))
            key = (finding.severity, finding.code, kind, what, fix)
        same.setdefault(key, []).append(finding)
    alike: dict[Hashable, list[list[Finding]]] = {}
    for key, group in same.items():
        kind, _, name = group[0].object.partition(" ")
        kinds = (group[0].severity, group[0].code, kind) if name else key
        alike.setdefault(kinds, []).append(group)
    shown: list[Finding] = []
    for groups in alike.values():
        if len(groups) > _ALIKE:
            shown.append(_with_example([one for group in groups for one in group]))
        else:
            shown += [group[0] if len(group) == 1 else _of_several(group) for group in groups]
    return shown


def _instead(text: str, name: str, word: str) -> str:
    """The text with a word instead of the name of an object; names that contain it stay."""
    if name not in text:
        return text
    return re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w/-]|\.\w)", lambda _: word, text)


def _of_several(findings: list[Finding]) -> Finding:
    first = findings[0]
    kind, _, name = first.object.partition(" ")
    if not name:
        return first
    verb, blank, rest = first.message.partition(" ")
    what = _instead(f"{_PLURAL.get(verb, verb)}{blank}{rest}", name, f"the {kind}")
    names = list(dict.fromkeys(one.object.partition(" ")[2] for one in findings))
    return replace(
        first, object=named(names, kind), message=what, fix=_instead(first.fix, name, f"the {kind}")
    )


def _with_example(findings: list[Finding]) -> Finding:
    first = findings[0]
    kind, _, _ = first.object.partition(" ")
    names = {one.object for one in findings}
    what = f"for example {first.object}: {first.message}"
    return replace(first, object=f"{len(names):,} {plural(kind) if len(names) > 1 else kind}", message=what)


def throttled_text(used: int) -> str:
    """Return the note on a namespace that used so many nanoseconds in the last minute; 0 means unknown."""
    took = f"its jobs took {used / 1e9:.1f}s of processor time in the last minute; " if used else ""
    return (
        f"is above its fair share of the scheduler: {took}while other namespaces have pending jobs, "
        "one of its jobs is tried per turn"
    )
