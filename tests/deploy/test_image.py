"""The Dockerfile, as far as it can be checked without building it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from tests.deploy.shipped import objects

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()


TARGETS = ("device-plugin", "scheduler")


def said(word: str) -> list[str]:
    return [line.split(maxsplit=1)[1] for line in LINES if line.startswith(f"{word} ")]


def test_both_stages_use_the_same_pinned_glibc_base() -> None:
    assert said("FROM") == [
        "${BASE} AS build",
        "build AS build-device-plugin",
        "${BASE} AS device-plugin",
        "${BASE} AS scheduler",
    ]
    # An argument: a digest can be given at the build.
    base = said("ARG")[0].removeprefix("BASE=")
    # slim is Debian; alpine would be musl, for which there are other wheels or none.
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", base)


def test_no_step_depends_on_a_processor() -> None:
    assert not re.search(
        r"amd64|arm64|x86|aarch64|TARGETARCH|--platform", "\n".join(said("RUN") + said("FROM"))
    )
    assert [line for line in said("RUN") if "requirements.txt" in line and "--only-binary=:all:" in line]


def test_it_runs_as_the_user_that_the_manifests_name() -> None:
    (user,) = set(said("USER"))
    assert len(said("USER")) == len(TARGETS)
    (scheduler,) = [
        one["spec"]["template"]["spec"]["securityContext"]
        for one in objects()
        if one["kind"] == "Deployment" and one["metadata"]["name"] == "ringwise-scheduler"
    ]
    assert user == f"{scheduler['runAsUser']}:{scheduler['runAsGroup']}"


def test_everything_that_is_copied_is_in_the_build_context() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "**"
    let_through = {line.removeprefix("!").removesuffix("/**") for line in ignored if line.startswith("!")}
    copied = {
        name for line in said("COPY") if "--from" not in line for name in line.split()[:-1]
    }  # the last word is the target
    assert copied == let_through
    assert all((ROOT / name).exists() for name in copied)


def test_the_builder_is_the_one_that_the_tests_use() -> None:
    pinned = re.search(
        r"^(setuptools==\S+)", (ROOT / "requirements-dev.txt").read_text(encoding="utf-8"), re.M
    )
    assert pinned is not None
    build = (ROOT / "requirements-build.txt").read_text(encoding="utf-8")
    assert re.findall(r"^(\S+==\S+)", build, re.M) == [pinned.group(1)]
    hashes = set(re.findall(r"sha256:[0-9a-f]{64}", build))
    developed = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert hashes
    assert hashes <= set(re.findall(r"sha256:[0-9a-f]{64}", developed))


def test_every_package_of_the_image_is_installed_with_hashes() -> None:
    for line in said("RUN"):
        for install in re.findall(r"pip install [^&]*", line):
            assert "--require-hashes" in install or install.rstrip().endswith(" .")


@pytest.mark.parametrize("name", ["ringwise", "kubectl-ringwise"])
def test_the_commands_of_the_image_exist(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["scripts"][name].partition(":")
    assert callable(getattr(import_module(module), function))
    assert said("ENTRYPOINT") == ['["ringwise"]'] * len(TARGETS)


#: What a Dockerfile of this project may contain; anything else needs a look at these rules.
INSTRUCTIONS = {"ARG", "FROM", "WORKDIR", "ENV", "COPY", "RUN", "LABEL", "USER", "ENTRYPOINT", "CMD"}


def test_the_dockerfile_follows_the_rules_of_linters() -> None:
    lines = [line for line in LINES if line.strip() and not line.lstrip().startswith("#")]
    assert {line.split()[0] for line in lines} <= INSTRUCTIONS
    text = "\n".join(lines)
    # No moving tags, no package manager of the base image, no download outside of pip, no shell entry point.
    assert not re.search(r":latest|apt-get|\bapk\b|curl|wget|sudo|chmod 777|ADD ", text)
    assert all(line.startswith("[") for line in said("ENTRYPOINT") + said("CMD"))
    assert all(
        "--no-cache-dir" in line or "PIP_NO_CACHE_DIR" in text
        for line in said("RUN")
        if "pip install" in line
    )
    # The last user of each target is not root.
    for stage in re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]:
        if stage.split("\n", 1)[0].rpartition(" ")[2] in TARGETS:
            assert re.findall(r"^USER (\d+):", stage, re.MULTILINE)[-1] != "0"


@pytest.mark.process
@pytest.mark.parametrize("target", TARGETS)
def test_each_target_runs_from_what_it_installs(target: str, tmp_path: Path) -> None:
    """The install steps with the packages of this environment, in a scratch folder."""
    package = tmp_path / "lib" / "python3.11" / "site-packages" / "ringwise"
    # With what is compiled: each call would compile all that it imports.
    shutil.copytree(ROOT / "src" / "ringwise", package)
    if target == "device-plugin":
        (step,) = [line for line in said("RUN") if "site-packages/ringwise" in line]
        done = subprocess.run(
            ["sh", "-ec", step.replace("/opt/ringwise", str(tmp_path))],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert not (package / "web").exists()
    chips = tmp_path / "chips.json"
    chips.write_text("{}", encoding="utf-8")
    calls = [["run", "device-plugin", "--help"], ["device-plugin", "check", "--simulated-chips", str(chips)]]
    if target == "scheduler":
        calls += [["run", name, "--help"] for name in ("scheduler", "controller", "admission")]
        calls += [["place", "-f", str(ROOT / "examples" / "cluster.yaml")]]
    for call in calls:
        ran = subprocess.run(
            [sys.executable, "-c", "from ringwise.cli.main import main; main()", *call],
            env={**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert ran.returncode == 0, ran.stderr
