"""Run `ringwise place`: objects in, its JSON out, through the real reader and the whole scheduler."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import yaml

from ringwise.apps.place import place
from ringwise.framework.configuration import Configuration
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from ringwise.topology.boards import BoardCatalog
from ringwise.views.place import PlaceAnswer, place_document

Plain = dict[str, Any]

#: The same text in a tenth of the time, where the library was built with it.
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
CONFIGURATION = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: topology910
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
configurations:
- name: init-params
  arguments: {{{arguments}}}
"""


def configuration_text(settings: Mapping[str, str]) -> str:
    arguments = ", ".join(f'"{key}": "{value}"' for key, value in settings.items())
    return CONFIGURATION.format(arguments=arguments)


@cache
def _configuration(settings: tuple[tuple[str, str], ...]) -> Configuration:
    if not settings:
        return default_configuration()
    return read_configuration(configuration_text(dict(settings)).encode(), "volcano-scheduler.conf", BUILT_IN)


@cache
def _catalog() -> BoardCatalog:
    return shipped_catalog(())


def as_bytes(objects: Sequence[Plain], form: str = "json-list") -> bytes:
    """The same objects in different forms of input."""
    if form == "json-list":
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}).encode()
    if form == "json-documents":
        return "\n".join(json.dumps(one) for one in objects).encode()
    if form == "yaml-list":
        objects = [{"apiVersion": "v1", "kind": "List", "items": list(objects)}]
    else:
        assert form == "yaml-documents"
    return yaml.dump_all(objects, Dumper=_DUMPER, explicit_start=True).encode()


def ask(
    objects: Sequence[Plain],
    settings: Mapping[str, str] | None = None,
    *,
    form: str = "json-list",
    scores: bool = True,
    everything: bool = False,
) -> Plain:
    """The answer as JSON. Any complaint about the input fails the test."""
    answer = answered(objects, settings, form=form, scores=scores, everything=everything)
    reported: Plain = json.loads(msgspec.json.encode(place_document(answer)))
    return reported


def answered(
    objects: Sequence[Plain],
    settings: Mapping[str, str] | None = None,
    *,
    form: str = "json-list",
    scores: bool = True,
    everything: bool = False,
) -> PlaceAnswer:
    """The answer that commands print."""
    bundle = read_bundle(["-"], stdin=as_bytes(objects, form))
    assert not bundle.errors, [str(error) for error in bundle.errors]
    configuration = _configuration(tuple(sorted((settings or {}).items())))
    answer = place(bundle, configuration, _catalog(), scores=scores, everything=everything)
    assert not answer.errors, [str(error) for error in answer.errors]
    assert not answer.view.history.incidents, answer.view.history.incidents
    return answer


def job_of(answer: Plain, name: str) -> Plain:
    found = [job for job in answer["jobs"] if job["name"] == name]
    assert len(found) == 1, [job["name"] for job in answer["jobs"]]
    job: Plain = found[0]
    check_reason(job)
    return job


def check_reason(job: Plain) -> None:
    """Nothing is refused or left waiting without a reason."""
    if job["state"] in ("scheduled", "running"):
        assert job["reason"] is None
        return
    reason = job["reason"]
    assert reason is not None, job
    assert reason["code"]
    assert reason["message"]
    assert reason["code"] != "internal-error", reason
