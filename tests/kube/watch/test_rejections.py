"""F5: which pods kubelet rejected at admission, and the number of rejections in the status of a vcjob."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.kube.watch.readers import PodReader
from ringwise.manifests.config_maps.rejections import read_rejections, write_rejections
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.text.errors import Findings
from ringwise.state.model import Pod
from tests.manifests.builders import real_pod

FAILED = {"phase": "Failed"}
LATER = "Pod was rejected: "
WAITS: list[dict[str, Any]] = [{"state": {"waiting": {}}}]


@pytest.mark.parametrize(
    ("sentence", "status", "word"),
    [
        (
            "no devices",
            {**FAILED, "reason": "UnexpectedAdmissionError", "message": "Pod Allocate failed"},
            "UnexpectedAdmissionError",
        ),
        ("no cpu is left", {**FAILED, "reason": "OutOfcpu", "message": "Pod Node didn't have"}, "OutOfcpu"),
        (
            "a resource of devices",
            {**FAILED, "reason": "OutOfhuawei.com/Ascend910"},
            "OutOfhuawei.com/Ascend910",
        ),
        ("NUMA", {**FAILED, "reason": "TopologyAffinityError"}, "TopologyAffinityError"),
        ("pressure at admission", {**FAILED, "reason": "Evicted"}, "Evicted"),
        ("pressure later", {**FAILED, "reason": "Evicted", "containerStatuses": WAITS}, ""),
        ("a word of a later kubelet", {**FAILED, "reason": "Tuesday", "message": LATER + "no"}, "Tuesday"),
        ("a deadline is not a rejection", {**FAILED, "reason": "DeadlineExceeded"}, ""),
        (
            "nor is a failure",
            {**FAILED, "containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]},
            "",
        ),
        ("nor a pod that runs", {"phase": "Running", "reason": "UnexpectedAdmissionError"}, ""),
        ("a word without end", {**FAILED, "reason": "OutOf" + "x" * 500}, "OutOf" + "x" * 59),
        ("nothing is said", {**FAILED}, ""),
    ],
)
def test_F5_what_kubelet_rejected(sentence: str, status: dict[str, Any], word: str) -> None:
    body = {**real_pod(3, 10), "status": status}
    read = PodReader(PodClassCache()).read(msgspec.Raw(msgspec.json.encode(body)), Findings("pod"))
    assert read is not None
    ((_, pod),) = read
    assert isinstance(pod, Pod)
    assert pod.node is not None
    assert pod.rejected == word, sentence


@given(
    st.dictionaries(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True), st.integers(1, 5))
)
def test_F5_the_numbers_are_read_as_they_were_written(rejections: dict[str, int]) -> None:
    written = write_rejections(rejections)
    assert read_rejections({name: text for name, text in written.items() if text is not None}) == rejections


@given(st.text())
def test_F5_what_others_write_is_left_out(text: str) -> None:
    found = read_rejections({"kubelet-rejections": text})
    assert all(1 <= times <= 5 for times in found.values())
