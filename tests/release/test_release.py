"""A release is built twice from a clone, compared, and installed offline from its files."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from tools.release import ARCHITECTURES, PYTHON_TAG

import ringwise
from tests.checkout import ROOT

pytestmark = pytest.mark.release

VERSION = ringwise.__version__
URL = "https://example.com/releases"
#: No package index is reachable for what is installed from the files of a release.
OFFLINE = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = [str(argument) for argument in arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def clone(folder: Path) -> Path:
    assert run("git", "clone", "--quiet", ROOT, folder).returncode == 0
    return folder


def build(checkout: Path, output: Path, version: str = VERSION) -> subprocess.CompletedProcess[str]:
    arguments = ("-m", "tools.release", version, "--output", output, "--url", URL)
    return run(sys.executable, *arguments, cwd=checkout)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clone(tmp_path_factory.mktemp("checkout") / "ringwise")


@pytest.fixture(scope="module")
def files(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("release") / "files"
    done = build(checkout, output)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="module")
def wheels(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of this machine, unpacked."""
    (machine,) = [name for name, wheels in ARCHITECTURES.items() if wheels == platform.machine()]
    name = f"ringwise-wheels-{VERSION}-{PYTHON_TAG}-linux-{machine}"
    folder = tmp_path_factory.mktemp("wheels")
    with tarfile.open(files / f"{name}.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder / name


def test_two_builds_give_the_same_files(checkout: Path, files: Path, tmp_path: Path) -> None:
    other = clone(tmp_path / "other")
    assert build(other, tmp_path / "files").returncode == 0
    assert (tmp_path / "files/SHA256SUMS").read_text() == (files / "SHA256SUMS").read_text()


def test_checksums_name_every_file(files: Path) -> None:
    lines = (line.split("  ") for line in (files / "SHA256SUMS").read_text().splitlines())
    assert {name: digest for digest, name in lines} == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files.iterdir()
        if path.name != "SHA256SUMS"
    }


def guide_commands(*programs: str) -> str:
    """The blocks of the guide that start with one of these programs, for this machine."""
    text = (ROOT / "docs/guides/install.md").read_text(encoding="utf-8")
    section = text.partition("## Get the files\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```\n(.*?)^```", section, re.M | re.S)
    (machine,) = [name for name, wheels in ARCHITECTURES.items() if wheels == platform.machine()]
    text = "".join(block for block in blocks if block.split()[0] in programs)
    return text.replace("cp311", PYTHON_TAG).replace("python3.11", sys.executable).replace("amd64", machine)


def test_the_guide_installs_the_command_line_and_the_sources_offline(
    checkout: Path, files: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "dist"
    shutil.copytree(files, folder)
    show = "cd ..\nringwise version -o json"
    done = run(
        "sh",
        "-ec",
        guide_commands("sha256sum") + "cd ..\n" + guide_commands("tar") + show,
        cwd=folder,
        env={**OFFLINE, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    commit = run("git", "rev-parse", "HEAD", cwd=checkout).stdout.strip()
    shown = json.loads(done.stdout[done.stdout.index("{") :])
    assert (shown["version"], shown["commit"]) == (VERSION, commit)
    sources = folder / f"ringwise-{VERSION}"
    # What the Dockerfile copies, and what the guides name.
    assert (sources / "src/ringwise/commit.txt").read_text() == commit
    for name in (".dockerignore", "Dockerfile", "requirements-build.txt", "deploy/helm/ringwise/Chart.yaml"):
        assert (sources / name).read_bytes() == (ROOT / name).read_bytes()
    for page in sources.glob("docs/guides/*.md"):
        for name in re.findall(
            r"(?<![\w./])(?:deploy/(?:helm|manifests|values)|examples)/[\w/.-]*\w",
            page.read_text(encoding="utf-8"),
        ):
            assert (sources / name).exists(), f"{page.name}: {name}"
    command = tmp_path / "ringwise/bin/ringwise"
    arguments = ("place", "-f", "examples/cluster.yaml", "-f", "examples/jobs", "-o", "json")
    placed = run(command, *arguments, cwd=sources)
    assert placed.returncode == 0, placed.stderr
    assert {job["state"] for job in json.loads(placed.stdout)["jobs"]} >= {"scheduled", "pending"}
    for component in ("scheduler", "controller", "admission"):
        assert run(command, "run", component, "--help", cwd=tmp_path).returncode == 0


def test_the_device_plugin_is_installed_offline(wheels: Path, tmp_path: Path) -> None:
    assert run(sys.executable, "-m", "venv", tmp_path / "env").returncode == 0
    pip = (tmp_path / "env/bin/pip", "install", "--quiet", "--find-links", wheels)
    done = run(*pip, f"ringwise[device]=={VERSION}", env=OFFLINE)
    assert done.returncode == 0, done.stderr
    assert run(tmp_path / "env/bin/ringwise", "run", "device-plugin", "--help").returncode == 0


def test_the_kubectl_plugin_installs_itself_and_repeats_what_was_interrupted(
    files: Path, wheels: Path, tmp_path: Path
) -> None:
    (manifest,) = yaml.safe_load_all((files / "ringwise.krew.yaml").read_text())
    (entry,) = manifest["spec"]["platforms"]
    archive = files / entry["uri"].removeprefix(f"{URL}/")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == entry["sha256"]
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "plugin", filter="data")
    # krew starts a plugin by a symbolic link.
    (tmp_path / "kubectl-ringwise").symlink_to(tmp_path / "plugin" / entry["bin"])
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin/python").write_text("an installation that was interrupted")
    environment = {**OFFLINE, "PIP_FIND_LINKS": str(wheels), "RINGWISE_PLUGIN_HOME": str(home)}
    first = run(
        tmp_path / "kubectl-ringwise", "--version", env=environment | {"RINGWISE_PYTHON": sys.executable}
    )
    assert first.returncode == 0, first.stderr
    assert VERSION in first.stdout
    assert "installing" in first.stderr
    again = run(tmp_path / "kubectl-ringwise", "--version", env=environment | {"RINGWISE_PYTHON": "/missing"})
    assert (again.stdout, again.stderr) == (first.stdout, "")


def test_the_kubectl_plugin_names_the_python_that_it_requires(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "RINGWISE_PYTHON": "/missing/python"}
    done = run(ROOT / "tools/kubectl-ringwise", env=environment)
    assert done.returncode == 1
    assert (
        done.stderr
        == "error: kubectl ringwise requires Python 3.11 or newer; set RINGWISE_PYTHON to its path\n"
    )


def test_the_sbom_lists_what_requirements_pin(files: Path) -> None:
    document = json.loads((files / f"ringwise-{VERSION}.cdx.json").read_text())
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["version"] == VERSION
    pinned = re.findall(r"^(\S+)==([^\s;\\]+)", (ROOT / "requirements.txt").read_text(), re.M)
    listed = {(one["purl"].removeprefix("pkg:pypi/")) for one in document["components"]}
    assert listed == {f"{name}@{version}" for name, version in pinned}


def test_archives_have_what_they_name(files: Path) -> None:
    def names(archive: str) -> set[str]:
        with tarfile.open(files / archive) as tar:
            assert {(entry.uid, entry.gid) for entry in tar} == {(0, 0)}
            return set(tar.getnames())

    with ZipFile(files / f"ringwise-{VERSION}-py3-none-any.whl") as wheel:
        schemas = {
            Path(name).name
            for name in wheel.namelist()
            if "/views/schemas/" in name and name.endswith(".json")
        }
    assert names(f"ringwise-schemas-{VERSION}.tar.gz") == {"schemas.md"} | schemas
    assert len(schemas) > 40
    assert names(f"ringwise-completions-{VERSION}.tar.gz") == {"ringwise", "_ringwise", "ringwise.fish"}
    assert {"ringwise/Chart.yaml", "ringwise/values.yaml"} <= names(f"ringwise-{VERSION}.tgz")
    assert names(f"ringwise-manifests-{VERSION}.tar.gz")
    assert f"ringwise-{VERSION}/setup.py" in names(f"ringwise-{VERSION}.tar.gz")
    notes = (files / "RELEASE_NOTES.md").read_text()
    assert notes.startswith(f"# Ringwise {VERSION}\n")
    assert "](" not in notes


def test_a_checkout_with_changes_is_refused(checkout: Path, tmp_path: Path) -> None:
    other = clone(tmp_path / "other")
    (other / "new.txt").write_text("not committed")
    done = build(other, tmp_path / "files")
    assert done.returncode == 1
    assert done.stderr == "error: the checkout is not clean; commit or remove first:\n?? new.txt\n"


def test_another_version_is_refused(checkout: Path, tmp_path: Path) -> None:
    done = build(checkout, tmp_path / "files", "9.9.9")
    assert done.returncode == 1
    assert done.stderr == f"error: src/ringwise/__init__.py has version {VERSION}, not 9.9.9\n"
    assert not (tmp_path / "files").exists()


def test_files_of_another_release_are_not_overwritten(checkout: Path, files: Path) -> None:
    done = build(checkout, files)
    assert done.returncode == 1
    assert done.stderr == f"error: {files} is not empty\n"
