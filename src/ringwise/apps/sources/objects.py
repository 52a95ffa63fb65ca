"""What files and clusters have in common: objects that were read once, and schedulers that got them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ringwise.apps.loading import LoadedCluster, from_bundle
from ringwise.apps.queries import examine
from ringwise.apps.sources.documents import ClusterAnswers
from ringwise.framework.configuration import Configuration
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.text.errors import ManifestError
from ringwise.topology.boards import BoardCatalog
from ringwise.views.cluster import ClusterObjects
from ringwise.views.documents.explain import DoctorDocument

if TYPE_CHECKING:
    from ringwise.views.documents.maintenance import DrainPlanDocument

Notify = Callable[[object], object]


class BadObjectsError(Exception):
    """Pods name chips that they cannot hold."""

    def __init__(self, errors: list[ManifestError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


class ObjectAnswers(ClusterAnswers):
    """Answers about objects that were read once."""

    def __init__(
        self, catalog: BoardCatalog, board_files: tuple[Path, ...], notify: Notify, *, skip_bad_pods: bool
    ) -> None:
        """`notify` gets what a person should know beside the answer, line by line."""
        self.catalog = catalog
        self.board_files = board_files
        self._notify = notify
        self._skip_bad_pods = skip_bad_pods
        #: Pods that name chips they cannot hold, and were left out.
        self.bad_pods: list[ManifestError] = []

    @property
    @abstractmethod
    def bundle(self) -> Bundle: ...

    @property
    @abstractmethod
    def configuration(self) -> Configuration: ...

    @property
    def objects(self) -> ClusterObjects:
        return self._as_read.objects

    @property
    def decided(self) -> ClusterObjects:
        return self._after_a_cycle.objects

    @cached_property
    def _as_read(self) -> LoadedCluster:
        return self._load(decide=False)

    @cached_property
    def _after_a_cycle(self) -> LoadedCluster:
        return self._load(decide=True)

    def _load(self, *, decide: bool) -> LoadedCluster:
        result = from_bundle(self.bundle, self.configuration, self.catalog, now=self.now, decide=decide)
        self._check(result.errors)
        return result

    def _check(self, errors: list[ManifestError]) -> None:
        """Raises BadObjectsError, unless such pods are left out: then each is reported once."""
        if errors and not self._skip_bad_pods:
            raise BadObjectsError(errors)
        if not self.bad_pods:
            self.bad_pods = errors
            for error in errors:
                self._notify(error)

    def doctor(self) -> DoctorDocument:
        """Objects that cannot be read are findings."""
        return DoctorDocument.of(examine(self.bundle, self.configuration, self.catalog, now=self.now))

    def drain_plan(self, target: str, at: str | None = None, *, force: bool = False) -> DrainPlanDocument:
        """Raises UnknownTargetError, and ValueError for a time that cannot be."""
        from ringwise.apps.drain import plan_of
        from ringwise.apps.targets import moment

        start = None if at is None else moment(at, self.now)
        return plan_of(self.bundle, self.configuration, self.board_files, target, self.now, start, force)
