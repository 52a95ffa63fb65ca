"""What the repository ships for clusters: the rendered manifests, and files of the chart."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import yaml
from tools.manifests import ADMISSION, KUSTOMIZATION, MANIFESTS

from ringwise_bench.checkout import CHART

Object = dict[str, Any]


def chart_text(name: str) -> str:
    """Return the text of a file of the chart that its templates read."""
    return (CHART / "files" / name).read_text(encoding="utf-8")


@cache
def objects(*, admission: bool = False) -> list[Object]:
    """Return what `kubectl apply -k deploy/manifests` creates, without Volcano's definitions."""
    folders = [MANIFESTS, MANIFESTS / ADMISSION] if admission else [MANIFESTS]
    files = {path.name: path for folder in folders for path in sorted(folder.glob("*.yaml"))}
    del files[KUSTOMIZATION], files["crds.yaml"]
    return [
        one
        for path in files.values()
        for one in yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    ]


def only(kind: str) -> Object:
    """Return the one object of a kind."""
    (found,) = [one for one in objects(admission=True) if one["kind"] == kind]
    return copy.deepcopy(found)


def webhooks(kind: str) -> Object:
    """Return the ValidatingWebhookConfiguration or the MutatingWebhookConfiguration."""
    return only(f"{kind}WebhookConfiguration")


@cache
def access_rules() -> dict[str, list[Object]]:
    """Return all rights, by the name that the chart has for them."""
    watched, written = (
        yaml.load(chart_text(name), yaml.CSafeLoader) for name in ("rbac-watched.yaml", "rbac.yaml")
    )
    return {name: [*watched.get(name, ()), *written.get(name, ())] for name in (watched | written)}
