"""A checked configuration as a document."""

from __future__ import annotations

from typing import Any

from ringwise.manifests.configuration import ConfigurationCheck
from ringwise.views import VERSIONS


def configuration_document(check: ConfigurationCheck) -> dict[str, Any]:
    """What each line does, and the counts of warnings and errors."""
    return {
        "version": VERSIONS["configuration"],
        "file": check.origin,
        "loads": check.configuration is not None,
        "warnings": check.count("warning"),
        "errors": check.count("error"),
        "lines": [
            {"line": line.line, "what": line.what, "verdict": line.verdict, "effect": line.effect}
            for line in check.lines
        ],
    }
