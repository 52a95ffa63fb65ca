"""One real control plane with Ringwise's objects, and nodes with real kubelets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ringwise_bench.control_plane import ControlPlane
from tests.cluster.cluster import JOBS, PODS, Cluster
from tests.cluster.conftest import keep_logs
from tests.node.machine import Machine, why_not

#: Starts a node with a kubelet and, unless told otherwise, the plugin.
StartMachine = Callable[..., Machine]


@pytest.fixture(scope="session")
def whole_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    missing = why_not()
    if missing:
        pytest.fail(missing)
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as plane:
        cluster = Cluster(plane)
        cluster.install()
        yield cluster


@pytest.fixture
def machines(whole_plane: Cluster, request: pytest.FixtureRequest) -> Iterator[tuple[Cluster, StartMachine]]:
    started: list[Machine] = []

    def start(name: str, *, plugin: bool = True, shares: bool = False) -> Machine:
        machine = Machine(whole_plane.plane, name, shares=shares)
        started.append(machine)
        machine.start_kubelet()
        if plugin:
            machine.start_plugin()
            whole_plane.wait(lambda: machine.allocatable() == machine.ids, f"{name} has its chips")
        return machine

    failed = request.session.testsfailed
    yield whole_plane, start
    if request.session.testsfailed > failed:
        keep_logs(whole_plane.plane.folder, request.node.name)
    # The kubelets let the pods go before they end.
    whole_plane.stop_components()
    whole_plane.api.delete(JOBS)
    whole_plane.api.delete(PODS, {"gracePeriodSeconds": 0})
    for machine in started:
        machine.stop()
    whole_plane.clear()
