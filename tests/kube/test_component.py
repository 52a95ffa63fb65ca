"""The components as they are started: endpoints, configuration files, output, exit codes."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from ringwise.apps.admission.certificates import make_authority, make_server
from ringwise.apps.journal.format import open_journal
from ringwise.apps.kube_scheduler import ComponentOptions, ConfigurationFile, serve
from ringwise.apps.replay import replay
from ringwise.cli.commands import cli
from ringwise.kubeclient.config import direct
from ringwise.log import LEVELS, Logger
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.errors import DocumentError
from ringwise.metrics import endpoints
from ringwise.metrics.endpoints import AddressError, parse_address, serving
from ringwise.metrics.prometheus import Metrics
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import CONFIG_MAPS, EVENTS, GROUPS, NODES, PODS, node, pod, until

KUBECONFIG = (
    "current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n"
    "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
)


async def fetched(port: int, page: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{page}") as answer:
        return answer.status, await answer.text()


async def test_readiness_follows_the_component_and_health_does_not() -> None:
    ready = False
    metrics = Metrics(volcano=True)
    async with serving(
        metrics, lambda: ready, metrics_address="127.0.0.1:0", health_address="127.0.0.1:0"
    ) as (port,):
        assert (await fetched(port, "/readyz"))[0] == 503
        assert (await fetched(port, "/healthz"))[0] == 200
        ready = True
        assert (await fetched(port, "/readyz"))[0] == 200
        metrics.bound(0.02)
        metrics.bind_failed("conflict")
        metrics.pending({"full": 3})
        metrics.pending({})
        metrics.chips("huawei.com/Ascend910", 8, {"free": 5, "used": 3, "faulty": 1}, 3)
        metrics.omitted_entries.set(2)
        metrics.throttled.set(12.5, "flood")
        text = (await fetched(port, "/metrics"))[1]
        for line in (
            "ringwise_bindings_total 1.0",
            "ringwise_rescheduling_omitted_entries 2.0",
            'ringwise_throttled_namespace_cpu_seconds{namespace="flood"} 12.5',
            'ringwise_bind_errors_total{reason="conflict"} 1.0',
            'ringwise_pending_jobs{reason="full"} 0.0',
            'ringwise_chips{resource="huawei.com/Ascend910",state="faulty"} 1.0',
            'ringwise_chip_capacity{resource="huawei.com/Ascend910"} 8.0',
            'ringwise_chips_until_drain{resource="huawei.com/Ascend910"} 3.0',
            'volcano_schedule_attempts_total{result="scheduled"} 1.0',
        ):
            assert line in text.splitlines()


async def test_probes_by_https(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = make_authority("tests", now, timedelta(days=1))
    pair = make_server(authority, ["localhost"], now, timedelta(days=1))
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_text(pair.certificate)
    key.write_text(pair.key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    trusted = ssl.create_default_context(cadata=authority.certificate)
    async with serving(
        Metrics(),
        lambda: True,
        metrics_address="127.0.0.1:0",
        health_address="localhost:0",
        health_tls=tls,
    ) as (plain, secret):
        # The metrics stay as they are, and a probe of Huawei's components asks for the root.
        assert (await fetched(plain, "/metrics"))[0] == 200
        async with aiohttp.ClientSession() as session:
            for page in ("/", "/healthz", "/readyz"):
                async with session.get(f"https://localhost:{secret}{page}", ssl=trusted) as answer:
                    assert answer.status == 200


async def test_a_component_without_progress_is_neither_healthy_nor_ready() -> None:
    healthy = True
    async with serving(
        Metrics(),
        lambda: True,
        healthy=lambda: healthy,
        metrics_address="",
        health_address="127.0.0.1:0",
    ) as (port,):
        for expected in (200, 503):
            for page in ("/healthz", "/livez", "/readyz"):
                assert (await fetched(port, page))[0] == expected
            healthy = False


class LargeMetrics(Metrics):
    """More than sockets buffer."""

    def text(self) -> bytes:
        return b"x" * (32 << 20)


async def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "CLIENT_TIMEOUT", 0.1)
    async with serving(LargeMetrics(), lambda: True, metrics_address="127.0.0.1:0", health_address="") as (
        port,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 10)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        answering = partial(_tasks_of, "PageServer.answer")
        await until(answering)
        await until(lambda: not answering())
        received = 0
        with suppress(ConnectionResetError):
            while chunk := await reader.read(1 << 16):
                received += len(chunk)
        assert received < 32 << 20
        writer.close()


def _tasks_of(name: str) -> list[asyncio.Task[Any]]:
    return [
        task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "").endswith(name)
    ]


@pytest.mark.parametrize("text", ["8080", ":", ":x", ":99999", "", ":" + "9" * 5000])
def test_invalid_addresses(text: str) -> None:
    with pytest.raises(AddressError, match="expected an address such as"):
        parse_address(text)


def test_addresses() -> None:
    assert parse_address(":8080") == ("0.0.0.0", 8080)
    assert parse_address("[::1]:9") == ("::1", 9)


async def test_a_port_in_use_is_reported() -> None:
    metrics = Metrics()
    async with serving(metrics, lambda: True, metrics_address="127.0.0.1:0", health_address="") as (port,):
        taken = f"127.0.0.1:{port}"
        with pytest.raises(AddressError, match="cannot listen"):
            async with serving(metrics, lambda: True, metrics_address=taken, health_address=""):
                pass


def test_a_changed_configuration_file_is_read_and_the_last_valid_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "volcano-scheduler.conf"
    path.write_text('actions: "allocate"')
    file = ConfigurationFile(path)
    assert file.current.actions == ("allocate",)
    assert file.changed() is None
    path.write_text('actions: "dance"')
    assert file.changed() is None
    assert file.current.actions == ("allocate",)
    path.write_text('actions: "allocate, backfill"')
    changed = file.changed()
    assert changed is not None
    assert changed.actions == ("allocate", "backfill")
    path.unlink()
    assert file.changed() is None
    path.write_text('actions: "dance"')
    with pytest.raises(DocumentError):
        ConfigurationFile(path)


def component(api: FakeApiServer, stop: asyncio.Event, lines: list[dict[str, Any]], **chosen: Any) -> Any:
    options = ComponentOptions(metrics_address="", health_address="", **chosen)
    return serve(options, direct(api.url), None, shipped_catalog(()), lines.append, stop)


async def test_shadow_mode_writes_nothing() -> None:
    stop, lines = asyncio.Event(), list[dict[str, Any]]()
    async with FakeApiServer() as api:
        api.put(NODES, node("node-1"))
        task = asyncio.create_task(component(api, stop, lines, shadow=True))
        # At some point a pod is decided here before the other scheduler binds it.
        for number in itertools.count(1):
            api.put(PODS, pod(f"train-{number}", 1))
            await asyncio.sleep(0.05 * number)
            api.put(PODS, pod(f"train-{number}", 1, on="node-1", held="Ascend910-0"))
            await asyncio.sleep(0.05 * number)
            api.remove(PODS, f"default/train-{number}")
            if lines:
                break
        stop.set()
        await task
        assert {method for method, _ in api.requests} == {"GET"}
    assert lines[0]["pod"].startswith("default/train-")
    assert lines[-1]["event"] == "summary"
    assert json.dumps(lines)


async def test_the_whole_component_binds_and_reads_its_configuration_from_the_cluster() -> None:
    stop = asyncio.Event()
    async with FakeApiServer() as api:
        api.put(NODES, node("node-1"))
        configuration = {
            "metadata": {"name": "conf", "namespace": "volcano-system"},
            "data": {"volcano-scheduler.conf": 'actions: "enqueue, allocate"'},
        }
        api.put(CONFIG_MAPS, configuration)
        chosen = {
            "configuration_map": ("volcano-system", "conf"),
            "leader_elect_resource_namespace": "volcano-system",
        }
        task = asyncio.create_task(component(api, stop, [], **chosen))
        api.put(PODS, pod("train", 1))
        await until(lambda: api.get(PODS, "default/train")["spec"].get("nodeName"))
        stop.set()
        await task
        assert api.count("GET /api/v1/namespaces/volcano-system/configmaps") >= 1


async def test_bindings_of_bare_pods_come_before_everything_else_and_few_writes_follow() -> None:
    """With all defaults: one Binding and one event for each pod, and no PodGroup."""
    stop, hold = asyncio.Event(), asyncio.Event()
    async with FakeApiServer() as api:
        pods = [f"train-{number}" for number in range(24)]
        for number in range(3):
            api.put(NODES, node(f"node-{number}"))
        for name in pods:
            api.put(PODS, pod(name, 1))
        # The last binding is not answered for a while.
        api.fault(f"{pods[-1]}/binding", until=hold)
        task = asyncio.create_task(component(api, stop, []))
        await until(lambda: api.count("/binding") == len(pods))
        await until(lambda: sum(bool(one["spec"].get("nodeName")) for one in api.all(PODS)) == 23)
        for _ in range(100):
            await asyncio.sleep(0)
        assert api.count("POST /api/v1/namespaces/default/events") == 0
        hold.set()
        await until(lambda: len(api.all(EVENTS)) == len(pods))
        assert api.count("podgroups/") == 0
        assert api.count("PATCH /api/v1/namespaces/default/pods") == 0
        assert api.all(GROUPS) == []
        stop.set()
        await task


async def test_the_journal_of_the_component_gives_the_same_decisions_and_the_story_over_a_restart(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "journal.jsonl"
    async with FakeApiServer() as api:
        api.put(NODES, node("node-1"))
        for number in range(2):
            stop = asyncio.Event()
            task = asyncio.create_task(component(api, stop, [], journal=journal))
            api.put(PODS, pod(f"train-{number}", 1))
            await until(lambda: api.get(PODS, f"default/train-{number}")["spec"].get("nodeName"))  # noqa: B023
            stop.set()
            await task
    answer = replay(open_journal(journal), shipped_catalog())
    assert answer.difference is None
    assert answer.note is None
    told = CliRunner().invoke(cli, ["why", "train-0", "--journal", str(journal), "-o", "json"])
    entries = json.loads(told.stdout)["entries"]
    assert [entry["kind"] for entry in entries][:2] == ["submitted", "scheduled"]
    assert entries[1]["pods"][0]["to"] == "node-1"
    assert "the scheduler started again" in [entry["message"] for entry in entries]


async def test_a_cold_start_with_an_unreadable_config_map_uses_the_default_until_it_is_corrected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Threads write to it while it is read, which the capture of pytest does not allow.
    log = io.StringIO()
    monkeypatch.setattr(Logger, "_stream", log)
    monkeypatch.setattr(Logger, "_written", frozenset(LEVELS))
    stop = asyncio.Event()

    def configured(text: str) -> dict[str, Any]:
        return {
            "metadata": {"name": "conf", "namespace": "volcano-system"},
            "data": {"volcano-scheduler.conf": text},
        }

    async with FakeApiServer() as api:
        api.put(NODES, node("node-1"))
        api.put(CONFIG_MAPS, configured("actions: dance\nsettings: none"))
        chosen = {
            "configuration_map": ("volcano-system", "conf"),
            "leader_elect_resource_namespace": "volcano-system",
        }
        task = asyncio.create_task(component(api, stop, [], **chosen))
        api.put(PODS, pod("train", 1))
        await until(lambda: api.get(PODS, "default/train")["spec"].get("nodeName"))
        # Corrected: only allocate runs from here on, and a pod that requests nothing waits.
        api.put(CONFIG_MAPS, configured("actions: allocate\ntiers: [{plugins: [{name: usage}]}]"))
        await until(lambda: "no plugin usage" in log.getvalue())
        stop.set()
        await task
    text = log.getvalue()
    assert 'actions: Invalid value: \\"dance\\": must be one of' in text
    assert "settings: unknown field" in text


def test_a_cold_start_with_an_unreadable_file_prints_every_error_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    conf = tmp_path / "conf"
    conf.write_text("actions: dance\nsettings: none\n")
    answer = CliRunner().invoke(
        cli, ["run", "scheduler", "--kubeconfig", str(tmp_path / "config"), "--scheduler-conf", str(conf)]
    )
    assert answer.exit_code == 2
    first, second = answer.stderr.splitlines()
    assert first.startswith(
        f'{conf}: line 1: actions: Invalid value: "dance": must be one of enqueue, allocate'
    )
    assert second.startswith(f"{conf}: line 2: settings: unknown field")


async def test_the_controller_alone_reads_no_nodes() -> None:
    stop = asyncio.Event()
    async with FakeApiServer() as api:
        task = asyncio.create_task(component(api, stop, [], with_scheduler=False, leader_elect=False))
        await until(lambda: api.count("GET /api/v1/pods") >= 2)
        stop.set()
        await task
        assert api.count("/nodes") == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["scheduler", "--kubeconfig", "{tmp}/absent"], "No such file"),
        (["controller", "--kubeconfig", "{tmp}/absent"], "No such file"),
        (["scheduler", "--scheduler-configmap", "noslash"], "NAMESPACE/NAME"),
        (["scheduler", "--metrics-address", "8080"], "expected an address such as :8080"),
        (["scheduler", "--kubeconfig", "{tmp}/config", "--leader-elect-lease-duration", "12"], "5s earlier"),
        (
            ["controller", "--kubeconfig", "{tmp}/config", "--leader-elect-retry-period", "9"],
            "two attempts must fit",
        ),
        (["scheduler", "--kubeconfig", "{tmp}/config", "--scheduler-conf", "{tmp}/absent"], "No such file"),
        (["scheduler", "--kubeconfig", "{tmp}/config", "--journal", "{tmp}/config"], "is not a journal"),
    ],
)
def test_a_failed_start_prints_one_line_and_exits_with_2(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    result = CliRunner().invoke(cli, ["run", *(text.replace("{tmp}", str(tmp_path)) for text in arguments)])
    assert result.exit_code == 2
    assert expected in result.output
    assert len(result.output.strip().splitlines()) == 1
