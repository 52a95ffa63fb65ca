"""Equal inputs give equal answers: in any order of documents, in any form, under any hash seed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.cli.commands import cli
from tests.builders.objects import (
    filler,
    node,
    node_report,
    pod,
    pod_group,
    pod_spec,
    report,
    topology,
    vcjob,
)
from tests.examples import sample
from tests.place import switch_cases
from tests.place.asking import Plain, as_bytes, ask, configuration_text
from tests.timeouts import TEST_TIMEOUT

FORMS = ("json-list", "json-documents", "yaml-documents", "yaml-list")
SETTINGS = {"nslb-version": "2.0", "multi-pod-requests": "vendor"}
CLASSES = ("normal-schema", "large-model-schema")


def busy_cluster(seed: int) -> list[Plain]:
    """A bit of everything: used, faulty, nameless, small and large jobs, gangs, switches."""
    draw = random.Random(seed)
    objects = [
        topology(
            [(f"t{at}", [(f"10.0.0.{4 * at + place}", place) for place in range(4)]) for at in range(3)], 4
        )
    ]
    for number in range(12):
        name = f"node-{number}"
        objects.append(node(name, ip=f"10.0.0.{number}"))
        chips = draw.sample(range(8), 8)
        used = draw.choice([0, 0, 1, 2, 4, 8])
        if used:
            objects.append(filler(f"old-{number}", name, sorted(chips[:used])))
        if draw.random() < 0.1:
            objects += [pod(f"nameless-{number}-{at}", pod_spec(1), on=name) for at in range(2)]
        if draw.random() < 0.3:
            reported = report(
                chips[used:], unhealthy=chips[:1] if used else [], network=draw.choice([None, [], [3]])
            )
            objects.append(node_report(name, reported))
    for number in range(10):
        size, name = draw.choice([1, 2, 4, 8]), f"job-{number}"
        match draw.randrange(5):
            case 0:
                objects.append(pod(name, pod_spec(size)))
            case 1:
                objects.append(vcjob(name, [("worker", 1, pod_spec(size))]))
            case 2:
                objects.append(vcjob(name, [("worker", 3, pod_spec(8)), ("launcher", 1, pod_spec(0))]))
            case 3:
                objects.append(pod_group(name, 2))
                objects += [pod(f"{name}-{at}", pod_spec(size), group=name) for at in range(3)]
            case _:
                labels = {"tor-affinity": draw.choice(CLASSES)}
                objects.append(vcjob(name, [("worker", draw.choice([2, 4, 5]), pod_spec(8))], labels=labels))
    return objects


@settings(max_examples=len(sample(range(6))))
@given(seed=st.integers(0, 10_000), shuffle=st.randoms(use_true_random=False), form=st.sampled_from(FORMS))
def test_order_and_form_of_the_input_change_nothing(seed: int, shuffle: random.Random, form: str) -> None:
    objects = busy_cluster(seed)
    first = ask(objects, SETTINGS)
    shuffle.shuffle(objects)
    assert ask(objects, SETTINGS, form=form) == first


@pytest.mark.parametrize("number", range(0, len(switch_cases.CASES), 9))
def test_order_of_pods_and_jobs_changes_no_switch(number: int) -> None:
    case = switch_cases.CASES[number]
    cluster = switch_cases.build(case, "outside")
    objects = [*switch_cases.cluster_objects(case, cluster), *switch_cases.job_objects(case, "pod group")]
    first = ask(objects, switch_cases.settings_of(case))
    objects.reverse()
    assert ask(objects, switch_cases.settings_of(case)) == first


# -- the real program ---------------------------------------------------------------------------


def ringwise(*arguments: str, given: bytes = b"", seed: str = "0") -> subprocess.CompletedProcess[bytes]:
    program = Path(sys.executable).with_name("ringwise")
    return subprocess.run(
        [str(program), *arguments],
        input=given,
        capture_output=True,
        timeout=TEST_TIMEOUT,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )


@pytest.mark.full
@pytest.mark.process
def test_the_hash_seed_changes_no_byte(tmp_path: Path) -> None:
    manifests = tmp_path / "cluster.json"
    manifests.write_bytes(as_bytes(busy_cluster(7)))
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(configuration_text(SETTINGS))
    asked = ("place", "-f", str(manifests), "--config", str(conf), "--scores", "-o")
    one, two = (ringwise(*asked, "json", seed=seed) for seed in ("1", "4242"))
    assert one.returncode == two.returncode == 0, one.stderr
    assert one.stdout == two.stdout
    assert json.loads(one.stdout) == ask(busy_cluster(7), SETTINGS)


@pytest.mark.full
@pytest.mark.process
def test_files_folders_and_pipes_give_the_same(tmp_path: Path) -> None:
    objects = busy_cluster(3)
    for number, part in enumerate((objects[:9], objects[9:])):
        (tmp_path / f"{number}.yaml").write_bytes(as_bytes(part, "yaml-documents"))
    folder = ringwise("place", "-f", str(tmp_path), "-o", "json")
    piped = ringwise("place", "-f", "-", "-o", "json", given=as_bytes(objects))
    assert folder.returncode == piped.returncode == 0, folder.stderr
    assert folder.stdout == piped.stdout
    assert json.loads(piped.stdout) == ask(objects, scores=False)


def test_two_pods_on_one_chip_are_an_error_and_the_rest_can_still_be_placed_N6() -> None:
    objects = [node("n-0"), filler("one", "n-0", [0]), filler("two", "n-0", [0]), pod("job", pod_spec(4))]
    stopped = CliRunner().invoke(cli, "place -f - -o json", as_bytes(objects))
    assert (stopped.exit_code, stopped.stdout) == (2, "")
    assert len(stopped.stderr.strip().splitlines()) == 1
    assert "Ascend910-0" in stopped.stderr
    going = CliRunner().invoke(cli, "place -f - -o json --keep-going", as_bytes(objects))
    assert going.exit_code == 2
    assert json.loads(going.stdout)["jobs"][0]["pods"][0]["chips"] == [4, 5, 6, 7]


def test_the_chips_of_a_pod_that_cannot_be_read_are_not_given_away_N7() -> None:
    unreadable = filler("old", "n-0", [0, 1])
    unreadable["metadata"]["annotations"]["huawei.com/Ascend910"] = "npu-0,npu-1"
    given = as_bytes([node("n-0"), unreadable, pod("job", pod_spec(4))])
    going = CliRunner().invoke(cli, "place -f - -o json --keep-going", given)
    assert going.exit_code == 2
    (job,) = (one for one in json.loads(going.stdout)["jobs"] if one["name"] == "job")
    assert job["state"] == "pending"
    assert "unknown-holder 1" in job["reason"]["message"]
    findings = json.loads(CliRunner().invoke(cli, "doctor -f - -o json", given).stdout)["findings"]
    assert [one["code"] for one in findings if "vcjob/old" in one["message"]] == ["unknown-holder"]
