"""Upgrades of the chart from an earlier commit, and rollbacks, while the API server calls the webhook."""

from __future__ import annotations

import base64
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ringwise.wellknown import VOLCANO_SYSTEM
from ringwise_bench.control_plane import ApiAnswer, ControlPlane, free_port
from tests.cluster.cluster import JOBS, WITH_ADMISSION, Cluster, Component, StoryApi, launch_from
from tests.cluster.objects import Object, vcjob
from tests.cluster.releases import helm
from tests.cluster.test_admission import ADDRESS, HOOKS, NAME, SECRET, SLICES
from tests.former import former_checkout

pytestmark = [
    pytest.mark.cluster,
    # An API server that waits too long for the webhook goes on without it.
    pytest.mark.alone,
    pytest.mark.skipif(not ADDRESS, reason="this machine has no address but loopback"),
]

#: The last commit with an installer beside the chart.
FORMER_CHART = "911c0fe025fd560b5956245bacf1158433ab0d72"
REJECTED = "rejected"
#: Requests after which the API server has seen a change of the endpoints.
SETTLED = 30


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ControlPlane(tmp_path_factory.mktemp("upgrade-plane")) as plane:
        cluster = Cluster(plane)
        yield cluster
        cluster.stop_components()


class Requests:
    """Jobs that can never run, created one after the other in a dry run, and what became of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._api = StoryApi(cluster.plane.url, cluster.plane.authority, cluster.plane.admin_token)
        self._api.namespace = cluster.namespace
        self._stop = threading.Event()
        #: Held while a request is on its way.
        self.lock = threading.Lock()
        self.outcomes: Counter[str] = Counter()

    def send(self) -> str:
        try:
            self._api.create(f"{JOBS}?dryRun=All", vcjob("impossible", 1, 3))
        except ApiAnswer as answer:
            return REJECTED if "denied the request" in str(answer) else str(answer)
        return "created"

    @contextmanager
    def sent_all_the_time(self) -> Iterator[None]:
        def run() -> None:
            while not self._stop.is_set():
                with self.lock:
                    self.outcomes[self.send()] += 1

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()


class Webhook:
    """A replica of the webhook behind the Service, and the change to another one."""

    def __init__(self, cluster: Cluster, requests: Requests) -> None:
        self._cluster = cluster
        self._requests = requests
        self._running: Component | None = None

    def replace(self, sources: Path | None = None) -> None:
        """Start a replica, route requests to it when it is ready, then end the one before."""
        port = free_port()
        launch = None if sources is None else launch_from(sources)
        webhook = self._cluster.start("admission", f"--address={ADDRESS}:{port}", launch=launch)
        self._cluster.wait(lambda: webhook.ready, "the webhook is ready")
        self._route(port)
        self._cluster.wait(lambda: self._requests.send() == REJECTED, "the API server calls the webhook")
        if self._running is not None:
            before = self._requests.outcomes.total()
            self._cluster.wait(lambda: self._requests.outcomes.total() > before + SETTLED, "requests arrive")
            # The API server does not repeat a request whose connection is closed meanwhile.
            with self._requests.lock:
                self._running.stop()
        self._running = webhook

    def _route(self, port: int) -> None:
        """Write the endpoint of the Service. No controller does so here."""
        meta = {"name": NAME, "namespace": VOLCANO_SYSTEM, "labels": {"kubernetes.io/service-name": NAME}}
        endpoint = {"addresses": [ADDRESS], "conditions": {"ready": True}}
        ports = [{"name": "webhook", "port": port, "protocol": "TCP"}]
        body: Object = {"metadata": meta, "addressType": "IPv4", "endpoints": [endpoint], "ports": ports}
        try:
            self._cluster.api.create(SLICES, body)
        except ApiAnswer:
            self._cluster.api.patch(f"{SLICES}/{NAME}", {"ports": ports})


def bundles(cluster: Cluster) -> set[str]:
    paths = HOOKS, HOOKS.replace("validating", "mutating")
    return {hook["clientConfig"]["caBundle"] for path in paths for hook in cluster.api.get(path)["webhooks"]}


def test_no_job_gets_past_the_webhook_during_an_upgrade_and_a_rollback(
    empty: Cluster, tmp_path: Path
) -> None:
    """The certificate of the earlier version stays in use: it is neither replaced nor lost by a rollback."""
    former = former_checkout(tmp_path, FORMER_CHART)
    chart = former / "deploy" / "helm" / "ringwise"
    helm(empty, "install", "ringwise", "--create-namespace", values=WITH_ADMISSION, chart=chart)
    empty.use_namespace("training")
    requests = Requests(empty)
    webhook = Webhook(empty, requests)
    webhook.replace(former / "src")
    before, certificate = bundles(empty), empty.api.get(SECRET)["data"]
    assert len(before) == 1
    with requests.sent_all_the_time():
        helm(empty, "upgrade", "ringwise", values=WITH_ADMISSION)
        webhook.replace()
        assert bundles(empty) == before
        assert empty.api.get(SECRET)["data"] == certificate
        helm(empty, "rollback", "ringwise", "1")
        webhook.replace(former / "src")
        assert bundles(empty) == before
        assert empty.api.get(SECRET)["data"] == certificate
        helm(empty, "upgrade", "ringwise", values=WITH_ADMISSION)
        webhook.replace()
    assert set(requests.outcomes) == {REJECTED}
    # It belongs to no release, so removing the release keeps it.
    helm(empty, "uninstall", "ringwise")
    assert empty.api.get(SECRET)["data"] == certificate


def test_the_certificate_of_a_release_is_removed_with_it(empty: Cluster) -> None:
    """Upgrades keep what the webhook wrote into the Secret and the webhook configurations."""
    helm(empty, "install", "ringwise", "--create-namespace", values=WITH_ADMISSION)
    empty.use_namespace("training")
    requests = Requests(empty)
    webhook = Webhook(empty, requests)
    webhook.replace()
    secret, before = empty.api.get(SECRET), bundles(empty)
    assert secret["metadata"]["annotations"]["meta.helm.sh/release-name"] == "ringwise"
    authority = base64.b64decode(secret["data"]["ca.crt"])
    assert {base64.b64decode(bundle) for bundle in before} == {authority}
    with requests.sent_all_the_time():
        for values in ({**WITH_ADMISSION, "userPolicy": {"enabled": False}}, WITH_ADMISSION):
            helm(empty, "upgrade", "ringwise", values=values)
            assert empty.api.get(SECRET)["data"] == secret["data"]
        webhook.replace()
        helm(empty, "rollback", "ringwise", "1")
        assert empty.api.get(SECRET)["data"] == secret["data"]
        webhook.replace()
        assert bundles(empty) == before
    assert set(requests.outcomes) == {REJECTED}
    helm(empty, "uninstall", "ringwise")
    with pytest.raises(ApiAnswer):
        empty.api.get(SECRET)
