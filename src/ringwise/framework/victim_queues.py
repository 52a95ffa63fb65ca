"""What is known of the pods of a queue that could be evicted, before any of them is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Protocol

from ringwise.framework.job import Job
from ringwise.state.model import Pod, PodClass

JobPod = tuple[Job, Pod]


class VictimQueue(Protocol):
    """Never empty."""

    name: str

    @property
    def jobs(self) -> Mapping[str, Job]:
        """Whose pods they are, by key."""

    @property
    def lowest_priority(self) -> int:
        """Of the jobs."""

    @property
    def classes(self) -> Set[PodClass]:
        """Of the pods."""
