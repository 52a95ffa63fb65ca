"""What a client of the dashboard does: apply changes to a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ringwise.views.dashboard import DashboardRows
from ringwise.views.documents.dashboard import DashboardChangeDocument


class Mirror:
    """The rows as a client has them."""

    def __init__(self, nodes: Iterable[Any], jobs: Iterable[Any], queues: Iterable[Any], totals: Any) -> None:
        self.nodes = {row["name"]: row for row in nodes}
        self.jobs = {row["id"]: row for row in jobs}
        self.queues = list(queues)
        self.totals = totals

    @classmethod
    def of_rows(cls, rows: DashboardRows) -> Mirror:
        return cls(rows.nodes(), rows.jobs(), rows.queues(), rows.totals())

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Mirror:
        return cls(document["nodes"], document["jobs"], document["queues"], document["totals"])

    def apply(self, change: DashboardChangeDocument | Mapping[str, Any]) -> None:
        for name in change["removed_nodes"]:
            self.nodes.pop(name, None)
        for number in change["removed_jobs"]:
            self.jobs.pop(number, None)
        self.nodes.update({row["name"]: row for row in change["nodes"]})
        self.jobs.update({row["id"]: row for row in change["jobs"]})
        if change["queues"]:
            self.queues = list(change["queues"])
        self.totals = change["totals"]

    def plain(self) -> dict[str, Any]:
        """The same whatever ids the jobs have."""
        names = {number: _job_name(row) for number, row in self.jobs.items()}
        assert len(set(names.values())) == len(names)
        return {
            "nodes": {
                name: {
                    **row,
                    "holders": [number if number < 0 else names[number] for number in row["holders"]],
                }
                for name, row in self.nodes.items()
            },
            "jobs": {names[number]: {**row, "id": 0} for number, row in self.jobs.items()},
            "queues": self.queues,
            "totals": self.totals,
        }


def _job_name(row: Mapping[str, Any]) -> str:
    return f"{row['kind']} {row['namespace']}/{row['name']}"
