"""Sample configuration files, and the errors of invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringwise.framework.registry import PluginSpec
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.manifests.text.errors import DocumentError
from ringwise.scheduler.defaults import BUILT_IN

_FOLDER = Path(__file__).parents[1] / "samples" / "configurations"


def sample(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


DOCUMENT_CONFIG_MAP = sample("document-configmap.yaml")
DOCUMENT_TIERS = sample("document-tiers.conf")
#: Printed with its second tier one column to the left of the first.
DOCUMENT_BROKEN = sample("document-out-of-line.conf")
VENDOR_1_9 = sample("field-1.9.conf")
VENDOR_1_12 = sample("field-1.12.conf")

#: What Volcano's chart installs, and what its end-to-end suite installs.
VOLCANO_DEFAULT = sample("volcano-default.conf")
VOLCANO_CI = sample("volcano-ci.conf")


def problems(text: str | bytes, *plugins: PluginSpec) -> list[str]:
    """The errors of a configuration; `plugins` are installed beside those of Ringwise."""
    with pytest.raises(DocumentError) as refusal:
        read_configuration(text, "my.conf", BUILT_IN.with_specs(plugins))
    lines = str(refusal.value).splitlines()
    assert lines == [str(error) for error in refusal.value.errors]
    return lines


def says_what_is_allowed(line: str) -> bool:
    """Whether an error says what a value must be; one of broken YAML says what is there."""
    return any(
        words in line
        for words in (
            "allowed: ",
            "must ",
            "invalid YAML",
            "is repeated in one mapping",
            "is not defined before",
        )
    )
