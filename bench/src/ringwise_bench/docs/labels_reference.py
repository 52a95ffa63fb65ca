"""`docs/reference/labels.md`: labels, annotations and ConfigMaps, from `ringwise/wellknown.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ringwise import wellknown
from ringwise_bench.docs.parts import table

_SECTION = re.compile(r"^# -- (.+?) -*$", re.M)
_ENTRY = re.compile(r'((?:^#: .*\n)+)((?:^[A-Z_0-9]+ = "[^"\n]+"\n)+)', re.M)
_RULE = re.compile(r" \((?:rules? )?[NSPRDFMV]\d+[^)]*\)")


def labels_parts() -> dict[str, str]:
    return {name: table(("name", "meaning and writer"), rows) for name, rows in _sections()}


def _sections() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    _, *parts = _SECTION.split(Path(wellknown.__file__).read_text(encoding="utf-8"))
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        if re.match("Labels|Annotations|Prefixes|Namespaces|Schedulers", heading):
            name = re.sub(r" \(.*\)|\. .*", "", heading)
            yield name, list(_rows(text))


def _rows(text: str) -> Iterator[tuple[str, str]]:
    for comment, constants in _ENTRY.findall(text):
        meaning = _RULE.sub("", " ".join(line[3:] for line in comment.splitlines()))
        names = re.findall(r'"([^"]+)"', constants)
        yield ", ".join(f"`{name}`" for name in names), meaning.replace("|", "\\|")
