"""The JSON schemas of all documents, made from their types; wheels have them as files."""

from __future__ import annotations

from functools import cached_property
from typing import Any, get_args, get_type_hints

import msgspec

from ringwise.versions import document_problem
from ringwise.views.documents import (
    accounting,
    changes,
    cluster,
    dashboard,
    explain,
    limits,
    maintenance,
    place,
    reference,
    reservations,
    shadow,
    simulation,
    topology,
)
from ringwise.views.documents.common import Fields
from ringwise.views.kinds import KINDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class DocumentKind:
    """A kind of document, and the commands that print it or the requests that are answered with it."""

    def __init__(self, fields: type, *commands: str, requests: tuple[str, ...] = ()) -> None:
        self.fields = fields
        self.commands = commands
        self.requests = requests

    @cached_property
    def schema(self) -> str:
        """The value of the field `schema`: `ringwise.io/NAME/VERSION`."""
        if issubclass(self.fields, Fields):
            return str(self.fields.__struct_config__.tag)
        (schema,) = get_args(get_type_hints(self.fields)["schema"])
        return str(schema)

    @property
    def name(self) -> str:
        return self.schema.split("/")[1]

    @property
    def summary(self) -> str:
        return " ".join((self.fields.__doc__ or "").split())

    @property
    def file(self) -> str:
        """The name of its file, in this folder of a wheel."""
        return self.schema.partition("/")[2].replace("/", "-") + ".json"


#: Commands that print Kubernetes objects instead, which say with `apiVersion` and `kind` what they are.
PRINT_KUBERNETES_OBJECTS = ("ringwise topology import",)

_DOCUMENTS = (
    DocumentKind(changes.AdvanceDocument, "ringwise advance"),
    DocumentKind(reference.BenchDocument, "ringwise bench"),
    DocumentKind(reference.BoardDocument, "ringwise boards show"),
    DocumentKind(reference.BoardsDocument, "ringwise boards", "ringwise boards list"),
    DocumentKind(explain.CapacityDocument, "ringwise capacity"),
    DocumentKind(reference.ConfigurationDocument, "ringwise config check"),
    DocumentKind(dashboard.DashboardDocument, requests=("GET /api/v1/snapshot",)),
    DocumentKind(dashboard.DashboardChangeDocument, requests=("GET /api/v1/stream",)),
    DocumentKind(dashboard.DashboardJobDocument, requests=("GET /api/v1/jobs/{namespace}/{name}",)),
    DocumentKind(dashboard.DashboardNodeDocument, requests=("GET /api/v1/nodes/{name}",)),
    DocumentKind(dashboard.DashboardMovesDocument, requests=("GET /api/v1/moves",)),
    DocumentKind(dashboard.DashboardProblemsDocument, requests=("GET /api/v1/problems",)),
    DocumentKind(maintenance.DefragPlanDocument, "ringwise defrag --plan"),
    DocumentKind(changes.DeleteDocument, "ringwise delete"),
    DocumentKind(explain.DoctorDocument, "ringwise doctor"),
    DocumentKind(maintenance.DrainPlanDocument, "ringwise drain --plan"),
    DocumentKind(maintenance.DrillDocument, "ringwise drill"),
    DocumentKind(dashboard.ErrorDocument, requests=("rejected requests",)),
    DocumentKind(maintenance.FaultChangeDocument, "ringwise fault inject", "ringwise fault clear"),
    DocumentKind(maintenance.FaultsDocument, "ringwise fault list"),
    DocumentKind(accounting.IdleDocument, "ringwise report --idle"),
    DocumentKind(changes.JobChangeDocument, "ringwise requeue", "ringwise resume", "ringwise suspend"),
    DocumentKind(limits.LimitsDocument, "ringwise limits"),
    DocumentKind(changes.MovesDocument, "ringwise defrag --apply"),
    DocumentKind(
        changes.NodeChangeDocument,
        "ringwise cordon",
        "ringwise drain",
        "ringwise uncordon",
    ),
    DocumentKind(place.PlaceDocument, "ringwise place", requests=("POST /api/v1/what-if",)),
    DocumentKind(reference.ReplayDocument, "ringwise replay"),
    DocumentKind(reference.HardwareCheckDocument, "ringwise device-plugin check"),
    DocumentKind(accounting.ReportDocument, "ringwise report"),
    DocumentKind(reservations.ReservationChangeDocument, "ringwise reserve", "ringwise unreserve"),
    DocumentKind(reservations.ReservationPlanDocument, "ringwise reserve --plan"),
    DocumentKind(dashboard.SeriesDocument, requests=("GET /api/v1/series",)),
    DocumentKind(shadow.ShadowReportDocument, "ringwise report --shadow"),
    DocumentKind(simulation.SimulationDocument, "ringwise simulate"),
    DocumentKind(explain.EventsDocument, "ringwise events"),
    DocumentKind(
        explain.HistoryDocument,
        "ringwise events --for",
        "ringwise history",
        "ringwise why --history",
        requests=("GET /api/v1/jobs/{namespace}/{name}/history",),
    ),
    DocumentKind(changes.SubmitDocument, "ringwise submit"),
    DocumentKind(reference.SupportBundleDocument, "ringwise support-bundle"),
    DocumentKind(cluster.TopDocument, "ringwise top"),
    DocumentKind(reference.VersionDocument, "ringwise version"),
    DocumentKind(topology.TopologyDocument, "ringwise topology show"),
    DocumentKind(
        explain.WhyDocument,
        "ringwise why",
        requests=("GET /api/v1/jobs/{namespace}/{name}/why",),
    ),
    *(
        # Of the kinds that have no details, `describe` prints the list.
        DocumentKind(
            kind.list_type,
            f"ringwise get {kind.plural}",
            *(() if kind.is_described else (f"ringwise describe {kind.name}",)),
        )
        for kind in KINDS
    ),
    *(
        DocumentKind(kind.object_type, f"ringwise describe {kind.name}")
        for kind in KINDS
        if kind.is_described
    ),
)
DOCUMENTS = tuple(sorted(_DOCUMENTS, key=lambda kind: kind.name))


def json_schema(kind: DocumentKind) -> dict[str, Any]:
    """The JSON schema of a document, made from its type."""
    made = msgspec.json.schema(kind.fields)
    return {"$schema": DIALECT, "$id": kind.schema, **made}


def schema_text(kind: DocumentKind) -> str:
    """What the file of the schema contains."""
    return msgspec.json.format(msgspec.json.encode(json_schema(kind)), indent=2).decode() + "\n"


def find_kind(name: str) -> DocumentKind:
    """By name (`place`) or by the value of the field `schema`. Raises LookupError."""
    for kind in DOCUMENTS:
        if name in (kind.name, kind.schema):
            return kind
        if name.rpartition("/")[0] == kind.schema.rpartition("/")[0]:
            raise LookupError(f"{name}: {document_problem(name)}")
    from ringwise.topology.nearest import did_you_mean

    names = [kind.name for kind in DOCUMENTS]
    raise LookupError(
        f'schema "{name}" not found; must be one of {", ".join(names)}{did_you_mean(name, names)}'
    )
