"""Reads the text of the ConfigMap `ringwise-limits`, or all errors in it, like the configuration.

namespaces:
  team-a: {max-chips: 64, burst-chips: 16}
  "*": {max-running-jobs: 20}
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from ringwise.manifests.settings.configuration_text import open_text
from ringwise.manifests.text.checking import checked, keyed, no_hook
from ringwise.manifests.text.errors import Findings
from ringwise.state.limits import ANY_NAMESPACE, BURST, CHIPS, Limits, NamespaceLimits
from ringwise.topology.numbers import INT32

#: What a namespace's name may be, as Kubernetes has it.
_NAME = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)", re.ASCII)

_Amount = Annotated[int, msgspec.Meta(ge=0, le=INT32)]


class _Limits(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, omit_defaults=True):
    max_chips: _Amount | None = None
    burst_chips: _Amount | None = None
    max_running_jobs: _Amount | None = None
    max_waiting_jobs: _Amount | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    namespaces: dict[str, _Limits | None] = {}


def read_limits(text: bytes | str, origin: str, first_line: int = 1) -> NamespaceLimits:
    """Raises `DocumentError` with all errors."""
    document = open_text(text, origin, first_line)
    if document is None:
        return NamespaceLimits()
    found = Findings(origin, document.line_of)
    file = checked(document.value, _File, "", found, no_hook) or _File()
    limits: dict[str, Limits] = {}
    for name, one in file.namespaces.items():
        field = keyed("namespaces", name)
        if name != ANY_NAMESPACE and not _NAME.fullmatch(name):
            allowed = f'must be up to 63 letters a-z, digits and "-", or "{ANY_NAMESPACE}"'
            found.invalid(field, name, allowed)
        elif one is not None and one.burst_chips is not None and one.max_chips is None:
            found.add_error(field, f"{BURST} requires {CHIPS}")
        limits[name] = Limits() if one is None else Limits.named(msgspec.to_builtins(one))
    found.raise_errors()
    return NamespaceLimits(limits)
