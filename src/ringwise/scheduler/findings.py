"""A finding: something wrong with a cluster, with its place and its cure."""

from __future__ import annotations

from dataclasses import dataclass

ERROR, WARNING, NOTE = "error", "warning", "note"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: str
    code: str
    where: str
    what: str
    cure: str

    def as_json(self) -> dict[str, str]:
        return {
            "severity": self.severity,
            "code": self.code,
            "where": self.where,
            "what": self.what,
            "cure": self.cure,
        }
