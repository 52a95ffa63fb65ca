"""Compare requirements.txt with advisories in a directory, without a network.

    python -m tools.audit DIRECTORY

The directory holds OSV records (YAML or JSON, at any depth), such as a copy of the advisory database of the
Python Packaging Authority. With a network, `make audit` asks the public service instead.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]


def pinned(text: str) -> dict[str, Version]:
    return {
        canonicalize_name(name): Version(v) for name, v in re.findall(r"^(\S+?)==([^\s;\\]+)", text, re.M)
    }


def records(folder: Path) -> Iterator[Mapping[str, Any]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".yaml", ".yml", ".json"}:
            text = path.read_text(encoding="utf-8")
            record = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
            if isinstance(record, dict) and "affected" in record and "withdrawn" not in record:
                yield record


def affects(affected: Mapping[str, Any], version: Version) -> bool:
    """Return whether the version is listed, or in a range from `introduced` to `fixed` or `last_affected`."""
    if str(version) in affected.get("versions", ()):
        return True
    for one in affected.get("ranges", ()):
        inside = False
        for event in one["events"] if one["type"] == "ECOSYSTEM" else ():
            ((kind, text),) = event.items()
            try:
                bound = Version(text)
            except InvalidVersion:
                continue
            if kind == "introduced" and version >= bound:
                inside = True
            elif (kind == "fixed" and version >= bound) or (kind == "last_affected" and version > bound):
                inside = False
        if inside:
            return True
    return False


def findings(folder: Path, versions: Mapping[str, Version]) -> tuple[list[str], int]:
    """Return one line for each advisory that affects a pinned version, and how many records were read."""
    lines, count = [], 0
    for record in records(folder):
        count += 1
        for affected in record["affected"]:
            package = affected.get("package", {})
            name = canonicalize_name(package.get("name", ""))
            if package.get("ecosystem") == "PyPI" and name in versions and affects(affected, versions[name]):
                lines.append(
                    f"{name} {versions[name]}: {record['id']}: {record.get('summary') or 'see its details'}"
                )
    return lines, count


def main() -> None:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("error: give one directory with OSV records: make audit ADVISORIES=DIRECTORY")
    versions = pinned((ROOT / "requirements.txt").read_text(encoding="utf-8"))
    lines, count = findings(Path(sys.argv[1]), versions)
    if not count:
        sys.exit(f"error: {sys.argv[1]} has no OSV record")
    print("\n".join(lines) or f"{len(versions)} packages, {count} advisories: none is affected")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
