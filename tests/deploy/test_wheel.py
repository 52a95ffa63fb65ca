"""What is built from the two packages of the repository, and who needs which."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

import ringwise
from ringwise.cli.commands import cli
from ringwise.cli.develop import bench as command
from ringwise.views.schemas import DOCUMENTS
from tests.checkout import BENCH, PACKAGE, ROOT

BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


def built(source: Path, tmp_path: Path) -> set[str]:
    """The files of the wheel of what the folder holds, built from a copy."""
    copy, wheels = tmp_path / "source", tmp_path / "wheels"
    copy.mkdir()
    wheels.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        if (source / name).exists():
            shutil.copy(source / name, copy)
    shutil.copytree(
        source / "src",
        copy / "src",
        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
        symlinks=True,
    )
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(wheels)], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = wheels.iterdir()
    with ZipFile(wheel) as file:
        return {name for name in file.namelist() if ".dist-info/" not in name}


def files_of(package: Path) -> set[str]:
    found = {path.relative_to(package.parent) for path in package.rglob("*") if path.is_file()}
    return {path.as_posix() for path in found if "__pycache__" not in path.parts}


@pytest.mark.full
def test_the_wheel_has_what_users_run_and_nothing_else(tmp_path: Path) -> None:
    names = built(ROOT, tmp_path)
    schemas = {f"ringwise/views/schemas/{kind.file}" for kind in DOCUMENTS}
    assert names == files_of(PACKAGE) | schemas
    assert {name.partition("/")[0] for name in names} == {"ringwise"}
    # The page and the boards.
    assert {
        "ringwise/web/page/index.html",
        "ringwise/manifests/settings/profiles/910-x8.toml",
    } <= names
    # What is measured, what pages are made with and what tests start are in the other package.
    developed = r"ringwise/(cli/docs\.py|apps/(bench|docs|control_plane)\b|views/bench)"
    assert [name for name in names if re.match(developed, name)] == []


@pytest.mark.full
def test_the_other_wheel_has_the_benchmarks(tmp_path: Path) -> None:
    names = built(ROOT / "bench", tmp_path)
    assert names == files_of(BENCH)
    assert {
        "ringwise_bench/decide.py",
        "ringwise_bench/control_plane.py",
        "ringwise_bench/docs/write.py",
    } <= names


def test_both_packages_have_one_version() -> None:
    """The benchmarks measure the insides of one version."""
    described = tomllib.loads((ROOT / "bench" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert described["version"] == ringwise.__version__
    assert described["dependencies"] == [f"ringwise[device]=={ringwise.__version__}"]


def test_bench_works_where_its_package_is() -> None:
    done = CliRunner().invoke(cli, ["bench", "--help"])
    assert done.exit_code == 0, done.output
    assert "superpods" in "".join(done.stdout.split())


@pytest.mark.parametrize("arguments", [["decide", "--full"], ["--help"], []], ids=["run", "help", "bare"])
def test_without_its_package_bench_says_what_to_install(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "entry_points", lambda **_: ())
    done = CliRunner().invoke(command.find_bench(), arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "ringwise-bench" in line
    assert "not installed" in line
    assert "`make setup`" in line
    assert "`pip install ./bench`" in line
