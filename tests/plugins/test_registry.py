"""The table of plugins, and the reasons they give."""

from __future__ import annotations

import re

import pytest

from ringwise.framework.configuration import default_configuration
from ringwise.framework.plugin_options import PLUGINS as DESCRIBED
from ringwise.plugins import PLUGINS, reasons
from ringwise.reasons import ReasonKind, kinds_in
from tests.builders import cluster

KINDS = kinds_in(vars(reasons))


def test_every_plugin_that_is_described_exists_and_no_other() -> None:
    assert set(PLUGINS) == set(DESCRIBED)


def test_the_default_configuration_opens() -> None:
    tiers = [list(tier.plugins) for tier in default_configuration().tiers]
    assert cluster().node("n1").job("job").session(*tiers).incidents == []


def test_codes_of_reasons_are_unique() -> None:
    assert len({kind.code for kind in KINDS}) == len(KINDS) > 0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_reason_has_something_measured_a_cure_and_an_event_that_can_cure_it(kind: ReasonKind) -> None:
    assert re.search(r"\{\w+\}", kind.sentence)
    assert kind.cures
    assert kind.cured_by
