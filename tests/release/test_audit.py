"""The audit of dependencies reads OSV records without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version
from tools.audit import findings, pinned

VERSIONS = {"some-package": Version("1.5.0")}


def advisory(name: str = "Some_Package", ecosystem: str = "PyPI", **affected: Any) -> dict[str, Any]:
    package = {"name": name, "ecosystem": ecosystem}
    return {"id": "PYSEC-1", "summary": "A bug.", "affected": [{"package": package, **affected}]}


def ranges(*events: tuple[str, str]) -> dict[str, Any]:
    return {"ranges": [{"type": "ECOSYSTEM", "events": [{kind: version} for kind, version in events]}]}


@pytest.mark.parametrize(
    ("record", "affected"),
    [
        (advisory(versions=["1.5.0"]), True),
        (advisory(versions=["1.4.0"]), False),
        (advisory(**ranges(("introduced", "0"))), True),
        (advisory(**ranges(("introduced", "0"), ("fixed", "1.5.0"))), False),
        (advisory(**ranges(("introduced", "0"), ("fixed", "1.5.1"))), True),
        (advisory(**ranges(("introduced", "0"), ("last_affected", "1.5.0"))), True),
        (advisory(**ranges(("introduced", "0"), ("last_affected", "1.4.9"))), False),
        (advisory(**ranges(("introduced", "1"), ("fixed", "1.2"), ("introduced", "1.4"))), True),
        (advisory(**ranges(("introduced", "1.6"))), False),
        (advisory(name="other", versions=["1.5.0"]), False),
        (advisory(ecosystem="npm", versions=["1.5.0"]), False),
        (advisory(versions=["1.5.0"]) | {"withdrawn": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_versions_are_compared_with_an_advisory(
    record: dict[str, Any], affected: bool, tmp_path: Path
) -> None:
    (tmp_path / "vulns").mkdir()
    (tmp_path / "vulns/PYSEC-1.yaml").write_text(yaml.safe_dump(record))
    lines, _ = findings(tmp_path, VERSIONS)
    assert lines == (["some-package 1.5.0: PYSEC-1: A bug."] if affected else [])


def test_pins_are_read_with_markers_and_hashes() -> None:
    text = "a-b==1.0 \\\n    --hash=sha256:00\ncffi==2.1 ; platform_python_implementation != 'PyPy' \\\n"
    assert pinned(text) == {"a-b": Version("1.0"), "cffi": Version("2.1")}
