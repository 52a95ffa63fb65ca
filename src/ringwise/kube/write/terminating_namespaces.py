"""Refusals because a namespace is being deleted: one line in the log for each namespace."""

from __future__ import annotations

import re
from collections import OrderedDict

from ringwise.log import Logger

_LOG = Logger()

#: What the API server says to everything that would be created there.
_REFUSAL = re.compile(r"unable to create new content in namespace (\S+) because it is being terminated")
#: Namespaces that are remembered; beyond that the oldest is forgotten, and may be logged again.
_MAX_REMEMBERED = 1000


class TerminatingNamespaces:
    def __init__(self) -> None:
        self._logged: OrderedDict[str, None] = OrderedDict()

    def explain(self, why: str) -> bool:
        """Whether the refusal is of this kind; it was logged then, and needs no line of its own."""
        match = _REFUSAL.search(why)
        if match is None:
            return False
        namespace = match.group(1)
        if namespace not in self._logged:
            self._logged[namespace] = None
            if len(self._logged) > _MAX_REMEMBERED:
                self._logged.popitem(last=False)
            _LOG.warning("namespace is being deleted; nothing more is created in it", namespace=namespace)
        return True
