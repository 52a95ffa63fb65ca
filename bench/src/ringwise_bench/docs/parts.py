"""Parts of pages that are made from the code. The text around them is written by hand and stays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_PART = re.compile(r"<!-- (?P<name>[^\n>]+), from the code -->\n.*?<!-- end of (?P=name) -->\n", re.DOTALL)


def filled(page: str, parts: Mapping[str, str]) -> str:
    """Return the page with these parts replaced. Raises ValueError if it has others."""

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- {name}, from the code -->\n\n{parts[name].strip()}\n\n<!-- end of {name} -->\n"

    there = [found["name"] for found in _PART.finditer(page)]
    if sorted(there) != sorted(parts):
        raise ValueError(f"the page has the parts {there}, and not {list(parts)}")
    return _PART.sub(part, page)


def table(heading: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    first, *others = (f"| {' | '.join(cells)} |" for cells in (heading, *rows))
    return "\n".join([first, "|" + "---|" * len(heading), *others])
