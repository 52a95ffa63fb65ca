"""What-if from Python: `ringwise.place(objects, configuration) -> Answer`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ringwise.records import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """Where the jobs would be placed: the document of `ringwise place -o json`."""

    document: Mapping[str, Any]
    #: What was not read, and what the configuration names without an effect.
    notes: tuple[str, ...] = ()

    @property
    def jobs(self) -> Sequence[Mapping[str, Any]]:
        return list(self.document["jobs"])

    def job(self, name: str) -> Mapping[str, Any]:
        """The job `name` or `namespace/name`. Raises KeyError."""
        for job in self.jobs:
            if name in (job["name"], f"{job['namespace']}/{job['name']}"):
                return job
        raise KeyError(name)


def place(objects: Sequence[Mapping[str, Any]] | str | bytes, configuration: str | bytes = b"") -> Answer:
    """Decide about every pending job of `objects`, as `ringwise place` does. Nothing is changed.

    `objects` are Kubernetes objects as dictionaries, or manifests as YAML or JSON; `configuration` the text
    of a volcano-scheduler.conf. Raises ValueError with all errors of the input, one line each.
    """
    from ringwise.apps.extensions import read_user_configuration
    from ringwise.apps.place import place as decide
    from ringwise.manifests.bundle import read_text
    from ringwise.manifests.settings.boards import shipped_catalog
    from ringwise.scheduler.defaults import default_configuration
    from ringwise.views.place import place_document

    if isinstance(objects, str):
        text = objects.encode()
    elif isinstance(objects, bytes):
        text = objects
    else:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]}).encode()
    used = (
        read_user_configuration(configuration, "configuration") if configuration else default_configuration()
    )
    bundle = read_text(text, "objects")
    if bundle.errors:
        raise ValueError("\n".join(str(error) for error in bundle.errors))
    answer = decide(bundle, used, shipped_catalog(()))
    if answer.errors:
        raise ValueError("\n".join(str(error) for error in answer.errors))
    return Answer(msgspec.to_builtins(place_document(answer)), (*used.warnings, *bundle.notes))
