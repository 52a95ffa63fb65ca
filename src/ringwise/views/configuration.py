"""A checked configuration as a document."""

from __future__ import annotations

from ringwise.manifests.settings.configuration import ConfigurationCheck
from ringwise.views.documents.reference import ConfigurationDocument


def configuration_document(check: ConfigurationCheck) -> ConfigurationDocument:
    """What each line does, and the counts of warnings and errors."""
    return {
        "schema": "ringwise.io/configuration/v1",
        "file": check.origin,
        "loads": check.loads,
        "warnings": check.count("warning"),
        "errors": check.count("error"),
        "lines": [
            {"line": line.line, "what": line.what, "verdict": line.verdict, "effect": line.effect}
            for line in check.lines
        ],
    }
