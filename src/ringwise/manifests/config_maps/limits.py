"""Limits of namespaces: the ConfigMap `ringwise-limits`."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.manifests.text.errors import ConfigurationError, Findings
from ringwise.state.limits import NamespaceLimits
from ringwise.wellknown import LIMITS_KEY


def limits_from_data(data: Mapping[str, str], found: Findings) -> NamespaceLimits:
    field = f"data.{LIMITS_KEY}"
    text = data.get(LIMITS_KEY)
    if text is None:
        found.wrong(field, "is missing")
        return NamespaceLimits()
    # Imported here: most clusters have no such ConfigMap, and then need no YAML.
    from ringwise.manifests.settings.limits import read_limits

    try:
        return read_limits(text, "")
    except ConfigurationError as error:
        for problem in error.errors:
            line = "" if problem.line is None else f"line {problem.line}: "
            place = f"{problem.place}: " if problem.place else ""
            found.wrong(field, f"{line}{place}{problem.message}")
        return NamespaceLimits()
