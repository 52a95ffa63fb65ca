"""The Dockerfile, as far as it can be checked without building it."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from tests.deploy.shipped import objects

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()


def said(word: str) -> list[str]:
    return [line.split(maxsplit=1)[1] for line in LINES if line.startswith(f"{word} ")]


def test_both_stages_use_the_same_pinned_glibc_base() -> None:
    bases = {line.split()[0] for line in said("FROM")}
    assert len(said("FROM")) == 2
    assert bases == {"${BASE}"}
    # An argument: a digest can be given at the build.
    (argument,) = said("ARG")
    base = argument.removeprefix("BASE=")
    # slim is Debian; alpine would be musl, for which there are other wheels or none.
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", base)


def test_no_step_depends_on_a_processor() -> None:
    assert not re.search(
        r"amd64|arm64|x86|aarch64|TARGETARCH|--platform", "\n".join(said("RUN") + said("FROM"))
    )
    assert [line for line in said("RUN") if "requirements.txt" in line and "--only-binary=:all:" in line]


def test_it_runs_as_the_user_that_the_manifests_name() -> None:
    (user,) = said("USER")
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
    assert said("ENTRYPOINT") == ['["ringwise"]']
