"""What is read from the API: which objects, from where, and by whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ringwise.kube.watch.decoding import Change
from ringwise.kube.watch.facts import Facts
from ringwise.kube.watch.readers import (
    ConfigurationReader,
    GroupNote,
    GroupReader,
    JobReader,
    NodeReader,
    PodReader,
    PriorityReader,
    ReportReader,
    TopologyReader,
)
from ringwise.kube.write.pod_templates import TemplateStore
from ringwise.kube.write.queue_status import NotingQueueReader, QueueNote
from ringwise.kubeclient.client import Page
from ringwise.kubeclient.resources import (
    CONFIG_MAPS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    VCJOBS,
    Resource,
)
from ringwise.manifests.errors import Findings
from ringwise.manifests.pods import PodClasses
from ringwise.wellknown import (
    CLUSTER_REPORT_LABEL,
    KUBE_SYSTEM,
    MINDX_DL,
    NODE_REPORT_LABEL,
    TOR_NODE_CONFIG_MAP,
)


@dataclass(frozen=True, slots=True)
class Place:
    """Which objects a reader is for."""

    resource: Resource
    namespace: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    #: The kind may be unknown to the server: a CRD that nobody installed.
    optional: bool = False
    #: One fact may move from object to object; it is gone only when its last owner drops it.
    moving_facts: bool = False
    #: A word for logs and metrics.
    name: str = ""

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace)

    @property
    def title(self) -> str:
        return self.name or self.resource.plural


class Reader(Protocol):
    """Turns the bytes of objects into facts."""

    def page(self, answer: bytes) -> Page[Any]:
        """A page of a list. Its items are sights: decoded structs, or bytes that are not decoded yet."""

    def change(self, line: bytes) -> Change[Any]:
        """A line of a watch, with a sight of its object. Raises UnreachableError."""

    def read(self, sight: object, found: Findings) -> Facts | None:
        """What is wrong with it is in `found`. None: nothing can be said; what was known before stays."""

    def forget(self, key: str) -> None: ...


def standard_kinds(
    templates: TemplateStore,
    notes: dict[str, GroupNote],
    configuration: tuple[str, str] | None,
    *,
    queues: dict[str, QueueNote] | None = None,
    jobs_only: bool = False,
    plugins: Sequence[str] = (),
) -> list[tuple[Place, Reader]]:
    """Everything the scheduler and the controller read; pods last, when all nodes are known.

    `configuration` is namespace and name of the ConfigMap with the scheduler's settings, None when
    they come from a file. `jobs_only` leaves out what the job controller alone does not need.
    """
    classes = PodClasses()
    kinds: list[tuple[Place, Reader]] = [
        (Place(NODES), NodeReader()),
        (Place(PRIORITY_CLASSES), PriorityReader()),
        (Place(QUEUES, optional=True), NotingQueueReader({} if queues is None else queues)),
        (
            Place(
                CONFIG_MAPS, KUBE_SYSTEM, {"labelSelector": f"{NODE_REPORT_LABEL}=true"}, name="node-reports"
            ),
            ReportReader(),
        ),
        (
            Place(
                CONFIG_MAPS,
                MINDX_DL,
                {"labelSelector": f"{CLUSTER_REPORT_LABEL}=true"},
                moving_facts=True,
                name="cluster-reports",
            ),
            ReportReader(),
        ),
        (
            Place(
                CONFIG_MAPS,
                KUBE_SYSTEM,
                {"fieldSelector": f"metadata.name={TOR_NODE_CONFIG_MAP}"},
                name="topology",
            ),
            TopologyReader(),
        ),
        (Place(VCJOBS, optional=True), JobReader(classes, templates)),
        (Place(POD_GROUPS, optional=True), GroupReader(notes)),
        (Place(PODS), PodReader(classes)),
    ]
    if configuration is not None:
        namespace, name = configuration
        place = Place(
            CONFIG_MAPS, namespace, {"fieldSelector": f"metadata.name={name}"}, name="configuration"
        )
        kinds.insert(0, (place, ConfigurationReader(plugins)))
    if jobs_only:
        return [kind for kind in kinds if kind[0].resource in (PRIORITY_CLASSES, VCJOBS, POD_GROUPS, PODS)]
    return kinds
