"""One real control plane for all tests of this folder; it is empty at the start of each test."""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ringwise.apps.admission.certificates import make_authority
from ringwise_bench.control_plane import ControlPlane
from tests.cluster.cluster import Cluster
from tests.cluster.rights import operator_config

#: Signs client certificates of users.
CLIENT_AUTHORITY = "clients-of-the-tests"
LOGS = Path("build/cluster-logs")
#: How often each story runs on the same control plane.
REPEAT = int(os.environ.get("RINGWISE_REPEAT", "1"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if REPEAT > 1:
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(REPEAT))


@pytest.fixture(scope="session")
def whole_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("clients")
    authority = make_authority(CLIENT_AUTHORITY, datetime.now(UTC), timedelta(days=1))
    (folder / "ca.crt").write_text(authority.certificate)
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), folder / "ca.crt") as plane:
        cluster = Cluster(plane, authority)
        cluster.install()
        cluster.start_nodes()
        cluster.record()
        yield cluster


@pytest.fixture
def cluster(whole_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    failed = request.session.testsfailed
    whole_cluster.begin_story(namespace_of(request.node.name))
    yield whole_cluster
    if request.session.testsfailed > failed:
        keep_logs(whole_cluster.plane.folder, request.node.name)
    whole_cluster.clear()


def namespace_of(test: str) -> str:
    """Its beginning and a number: short, and in no table or sentence broken at a hyphen."""
    words = re.sub(r"[^a-z0-9]", "", test.lower().removeprefix("test_"))
    return f"{words[:10]}{zlib.crc32(test.encode()) % 10_000:04}"


@pytest.fixture
def operator(cluster: Cluster) -> Path:
    """The kubeconfig of an account that may read, isolate, reserve and move, and not evict."""
    return operator_config(cluster)


def keep_logs(folder: Path, name: str) -> None:
    """Keep the logs: the temporary folder is deleted."""
    target = LOGS / name.replace("/", "-")
    target.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        shutil.copy(log, target)
