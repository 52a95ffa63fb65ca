"""The framework plugins: what each pod gets, and the objects that a job needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from ringwise.controller.job_plugins import JobPlugins
from ringwise.messages.commands import ContainerPort, JobService, PodAdditions
from ringwise.messages.job_expansion import pods_of
from ringwise.state.job_plugins import JOB_PLUGINS, arguments_of, ignored_arguments, plugin_problems
from ringwise.state.job_rules import problems_of
from ringwise.state.vcjob import Task, VcJob
from tests.builders.values import job_of, task_of

Plugins = Mapping[str, tuple[str, ...]]


def named(task: Task, hostname: str, subdomain: str = "") -> Task:
    return replace(task, template=replace(task.template, hostname=hostname, subdomain=subdomain))


def given(job: VcJob) -> dict[str, PodAdditions]:
    """By the pod's name without that of the job."""
    plugins = JobPlugins(job)
    return {pod.name.removeprefix("train-"): plugins.additions(pod) for pod in pods_of(job)}


def test_pytorch_gives_address_size_rank_and_port() -> None:
    tasks = (task_of("master", 1), task_of("worker", 2), task_of("board", 1))
    pods = given(job_of(*tasks, plugins={"pytorch": ()}))
    env = {name: dict(additions.container_env) for name, additions in pods.items()}
    assert {name: variables.get("RANK") for name, variables in env.items()} == {
        "master-0": "0",
        "worker-0": "1",
        "worker-1": "2",
        "board-0": None,
    }
    for name, additions in pods.items():
        assert env[name]["MASTER_ADDR"] == "train-master-0.train"
        assert (env[name]["MASTER_PORT"], env[name]["WORLD_SIZE"]) == ("23456", "3")
        assert additions.ports == (ContainerPort("pytorchjob-port", 23456),)
        assert additions.init_containers == ()


def test_pytorch_workers_wait_for_the_master_where_asked() -> None:
    arguments = (
        "--master=boss",
        "--worker=hand",
        "-port",
        "7000",
        "--wait-master-enabled",
        "--wait-master-timeout=60",
        "--wait-master-image=images/box:1",
    )
    tasks = (named(task_of("boss", 1), "boss", "elsewhere"), task_of("hand", 1), task_of("master", 1))
    pods = given(job_of(*tasks, plugins={"pytorch": arguments}))
    assert dict(pods["hand-0"].container_env)["MASTER_ADDR"] == "boss.elsewhere"
    assert "RANK" not in dict(pods["master-0"].container_env)
    (wait,) = pods["hand-0"].init_containers
    assert (wait.name, wait.image, wait.command[:2]) == ("wait-for-master", "images/box:1", ("sh", "-c"))
    assert all(word in wait.command[2] for word in ("boss.elsewhere", "7000", "60"))
    assert pods["boss-0"].init_containers == pods["master-0"].init_containers == ()


def test_pytorch_without_a_master_adds_nothing() -> None:
    (additions,) = given(job_of(task_of("worker", 1), plugins={"pytorch": ()})).values()
    assert (additions.container_env, additions.ports) == ((), ())


def test_tensorflow_describes_the_cluster_and_the_place_of_the_pod() -> None:
    tasks = (task_of("ps", 1), task_of("hand", 2), task_of("chief", 0), task_of("other", 1))
    pods = given(job_of(*tasks, plugins={"tensorflow": ("--worker=hand", "--port=3000")}))
    configs = {name: json.loads(dict(one.container_env)["TF_CONFIG"]) for name, one in pods.items()}
    cluster = {
        "ps": ["train-ps-0.train:3000"],
        "worker": ["train-hand-0.train:3000", "train-hand-1.train:3000"],
    }
    assert {name: config["task"] for name, config in configs.items()} == {
        "ps-0": {"type": "ps", "index": 0},
        "hand-0": {"type": "worker", "index": 0},
        "hand-1": {"type": "worker", "index": 1},
        "other-0": {"type": "other", "index": 0},
    }
    assert all(config["cluster"] == cluster for config in configs.values())


def test_tensorflow_leaves_a_job_of_one_pod_alone() -> None:
    (additions,) = given(job_of(task_of("worker", 1), plugins={"tensorflow": ()})).values()
    assert additions.container_env == ()
    # Another task may get pods later.
    scaled = job_of(task_of("worker", 1), task_of("ps", 0), plugins={"tensorflow": ()})
    (additions,) = given(scaled).values()
    assert json.loads(dict(additions.container_env)["TF_CONFIG"])["cluster"] == {
        "worker": ["train-worker-0.train:2222"]
    }


def test_mpi_gives_the_master_the_hosts_of_the_workers() -> None:
    pods = given(job_of(task_of("master", 1), task_of("worker", 2), plugins={"mpi": ("--port=2022",)}))
    assert dict(pods["master-0"].env) == {"MPI_HOST": "train-worker-0.train,train-worker-1.train"}
    assert pods["worker-0"].env == ()
    for additions in pods.values():
        assert additions.ports == (ContainerPort("mpijob-port", 2022, in_init_containers=True),)
        assert any(kind == "Secret" for _, kind, _ in additions.mounts)
        assert additions.subdomain == "train"


def test_ray_starts_head_and_workers() -> None:
    arguments = ("--headContainer=main", "--dashboardPort=8000")
    job = job_of(task_of("head", 1), task_of("worker", 1), plugins={"ray": arguments})
    pods = given(job)
    ((container, command),) = pods["head-0"].commands
    assert (container, command[:2]) == ("main", ("sh", "-c"))
    assert command[2].startswith("ray start --head --block ")
    assert {"--port=6379", "--dashboard-port=8000", "--ray-client-server-port=10001"} <= set(
        command[2].split()
    )
    ports = (("gcs", 6379), ("dashboard", 8000), ("client-server", 10001))
    assert pods["head-0"].ports == tuple(ContainerPort(name, port, "main") for name, port in ports)
    assert pods["worker-0"].commands == (
        ("worker", ("sh", "-c", "ray start --block --address=train-head-0.train:6379")),
    )
    services = JobPlugins(job).resources().services
    assert services == (JobService("train"), JobService("train-head-svc", "head", ports))


def test_ssh_takes_keys_and_port() -> None:
    arguments = ("--ssh-private-key=private", "--ssh-public-key=public", "--ssh-port=2222")
    job = job_of(task_of("worker", 2), named(task_of("ps", 3), "p"), plugins={"ssh": arguments})
    keys = JobPlugins(job).resources().keys
    assert keys is not None
    assert (keys.secret, keys.private, keys.public) == ("train-ssh", "private", "public")
    assert keys.config.splitlines() == [
        "StrictHostKeyChecking no",
        "UserKnownHostsFile /dev/null",
        "Host train-worker-0",
        "  HostName train-worker-0.train",
        "  Port 2222",
        "Host train-worker-1",
        "  HostName train-worker-1.train",
        "  Port 2222",
        "Host p",
        "  HostName p.train",
        "  Port 2222",
        # MPI connects to the full names.
        "Host *.train",
        "  Port 2222",
    ]


def test_svc_without_variables_still_has_the_files() -> None:
    (additions,) = given(job_of(task_of("a", 1), plugins={"svc": ("--inject-hosts-env=false",)})).values()
    assert (additions.env_from, additions.mounts) == ((), (("/etc/volcano", "ConfigMap", "train-svc"),))


def test_a_host_name_of_the_template_is_one_host() -> None:
    lists = JobPlugins(job_of(named(task_of("a", 3), "box", "net"), plugins={"svc": ()})).host_lists()
    assert lists is not None
    assert lists.data == {"a.host": "box.net", "VC_A_HOSTS": "box.net", "VC_A_NUM": "1"}


@pytest.mark.parametrize(
    ("plugins", "words"),
    [
        ({"pytorhc": ()}, ["unable to find job plugin: pytorhc", 'did you mean "pytorch"?']),
        ({"gpu": ()}, ["unable to find job plugin: gpu", "allowed: env, svc"]),
        ({"mpi": ()}, ["mpi needs a task called master", "--master=NAME"]),
        ({"ray": ("--head=boss",)}, ["ray needs a task called boss"]),
        # A wrong argument does not hide that the task is missing.
        ({"mpi": ("--no-root",)}, ["mpi needs a task called master"]),
    ],
)
def test_unknown_plugins_and_missing_tasks_are_refused(plugins: Plugins, words: list[str]) -> None:
    (problem,) = problems_of(job_of(task_of("worker", 1), plugins=plugins))
    assert all(word in problem for word in words), problem


@pytest.mark.parametrize(
    ("plugins", "words"),
    [
        ({"env": ("--x",)}, ["env has no argument --x", "takes none"]),
        ({"svc": ("--inject-host-env",)}, ["--inject-host-env", '"inject-hosts-env"']),
        ({"svc": ("--inject-hosts-env=perhaps",)}, ["true or false", '"perhaps"']),
        ({"ssh": ("--ssh-port=0",)}, ["--ssh-port", "1 to 65535", '"0"']),
        ({"ssh": ("--ssh-port=70000",)}, ["1 to 65535"]),
        ({"ssh": ("--ssh-port",)}, ["1 to 65535", '""']),
        ({"ssh": ("--ssh-key-file-path=",)}, ["--ssh-key-file-path", "a string"]),
        ({"pytorch": ("port=1",)}, ['invalid argument "port=1"', "--name=value"]),
        ({"pytorch": ("---port=1",)}, ['invalid argument "---port=1"']),
        ({"pytorch": ("--wait-master-timeout=0",)}, ["a number from 1"]),
        ({"ssh": ("--no-root",)}, ["ssh has no argument --no-root", "it is ignored"]),
        ({"svc": ("--enable-networking",)}, ["svc has no argument --enable-networking"]),
    ],
)
def test_an_argument_that_cannot_be_read_is_ignored_and_told(plugins: Plugins, words: list[str]) -> None:
    assert problems_of(job_of(task_of("worker", 1), plugins=plugins)) == ()
    (note,) = ignored_arguments(plugins)
    assert all(word in note for word in words), note
    ((plugin, arguments),) = plugins.items()
    defaults = {name: flag.default for name, flag in JOB_PLUGINS[plugin].items()}
    assert arguments_of(plugin, arguments).values == defaults


def test_an_ignored_argument_hides_no_other_one() -> None:
    read = arguments_of("ssh", ("--no-root", "--ssh-port=2222"))
    assert (read.number("ssh-port"), len(read.ignored)) == (2222, 1)


def test_long_arguments_are_told_shortly() -> None:
    (note,) = ignored_arguments({"ssh": ("--" + "x" * 100_000,)})
    assert len(note) < 300


def test_every_default_of_every_argument_is_itself_valid() -> None:
    for plugin, flags in JOB_PLUGINS.items():
        for name, flag in flags.items():
            text = str(flag.default).lower() if isinstance(flag.default, bool) else str(flag.default)
            read = arguments_of(plugin, (f"--{name}={text}",))
            assert (read.ignored, read.values[name]) == ((), flag.default)


def test_the_last_of_several_arguments_counts() -> None:
    read = arguments_of("svc", ("--inject-hosts-env=false", "-inject-hosts-env"))
    assert (read.switch("inject-hosts-env"), plugin_problems({"svc": ()}, [])) == (True, [])
