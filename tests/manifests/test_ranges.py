"""Numbers beyond their range are errors that name the field and the range."""

from __future__ import annotations

import gc

import pytest

from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ContainerWire, PodSpecWire, ResourcesWire
from tests.builders.values import CHIP
from tests.manifests.builders import node, pod, text_of


@pytest.mark.parametrize("count", [3601, 10**9, 10**15])
def test_chips_of_a_node_have_a_range(count: int) -> None:
    bundle = read_bundle(["-"], stdin=text_of(node("a"), node("b", count)), keep_going=True)
    assert [one.name for one in bundle.nodes] == ["a"]
    assert str(bundle.errors[0]) == (
        f'stdin: document 2: status.capacity[{CHIP}]: Invalid value: "{count}": '
        "must be a whole number from 0 to 3600"
    )


@pytest.mark.parametrize("count", [2**64, 2**64 + 1, 10**400])
def test_limits_beyond_64_bits_are_errors_of_their_pod(count: int) -> None:
    bundle = read_bundle(["-"], stdin=text_of(pod("a"), pod("b", count)), keep_going=True)
    assert [one.name for one in bundle.pods] == ["a"]
    assert all("must be a whole number from 0 to 3600" in str(error) for error in bundle.errors)


def test_classes_that_no_pod_has_are_forgotten() -> None:
    classes, found = PodClassCache(), Findings("here")
    kept = []
    for cpu in range(1, 101):
        resources = ResourcesWire(limits={"cpu": cpu})
        spec = PodSpecWire(containers=[ContainerWire(resources=resources)])
        kept += [classes.of(spec, {}, "spec", found)[0]]
        del kept[3:]
    gc.collect()
    assert len(classes) == len(kept) == 3
