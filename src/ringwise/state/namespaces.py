"""The labels of namespaces, which affinity terms select pods by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ringwise.state.model import Namespace
from ringwise.wellknown import NAMESPACE_NAME


class Namespaces:
    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}

    def put(self, namespace: Namespace) -> bool:
        """Returns whether its labels changed."""
        before = self.labels(namespace.name)
        # An API server adds its name to every namespace; files may leave it out.
        self._labels[namespace.name] = {NAMESPACE_NAME: namespace.name, **namespace.labels}
        return self._labels[namespace.name] != before

    def drop(self, name: str) -> None:
        self._labels.pop(name, None)

    def labels(self, name: str) -> Mapping[str, str]:
        """Of one that is not known: the label that every namespace has."""
        return self._labels.get(name) or {NAMESPACE_NAME: name}

    def __iter__(self) -> Iterator[Namespace]:
        return (Namespace(name, labels) for name, labels in self._labels.items())
