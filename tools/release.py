"""Build the files of a release from the commit that is checked out, without publishing anything.

    python -m tools.release 0.1.0 --output dist/0.1.0 --url https://example.com/v0.1.0

`make release VERSION=0.1.0` calls it. It exports HEAD to a temporary directory and builds there, so
files that are not committed have no effect. Two runs on one commit give identical files: every archive has
the time of the commit.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PYTHON_TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
#: Architectures by the names of Kubernetes and of wheels. The second tag is that of older manylinux wheels.
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
MANYLINUX = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
SHELLS = {"bash": "ringwise", "zsh": "_ringwise", "fish": "ringwise.fish"}


class ReleaseError(Exception):
    """Why no release can be built from this checkout, in one line."""


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    #: Where the files will be downloaded from; only the krew manifest has it.
    url: str
    #: The exported commit, and the time of the commit in seconds since 1970.
    source: Path
    epoch: int
    output: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "SOURCE_DATE_EPOCH": str(self.epoch),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, *arguments: str | Path, **variables: str) -> str:
        done = subprocess.run(
            [str(argument) for argument in arguments],
            cwd=self.source,
            env=self.environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ReleaseError(f"{arguments[0]} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def archive(
        self, name: str, files: Mapping[str, bytes], executable: frozenset[str] = frozenset()
    ) -> Path:
        """Write a .tar.gz whose bytes depend on nothing but the names and contents of the files."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(files):
                entry = tarfile.TarInfo(path)
                entry.size, entry.mtime = len(files[path]), self.epoch
                entry.mode = 0o755 if path in executable else 0o644
                tar.addfile(entry, io.BytesIO(files[path]))
        target = self.output / name
        target.write_bytes(gzip.compress(buffer.getvalue(), mtime=self.epoch))
        return target


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def check(version: str, source: Path) -> None:
    """Compare the version with every file that states one."""
    project = re.search(r'^__version__ = "(.*)"', (source / "src/ringwise/__init__.py").read_text(), re.M)
    chart = yaml.safe_load((chart_of(source) / "Chart.yaml").read_text())
    bench = tomllib.loads((source / "bench/pyproject.toml").read_text())["project"]
    stated = {
        "src/ringwise/__init__.py": project and project[1],
        "Chart.yaml version": chart["version"],
        "Chart.yaml appVersion": chart["appVersion"],
        "bench/pyproject.toml": bench["version"],
    }
    for where, found in stated.items():
        if found != version:
            raise ReleaseError(f"{where} has version {found}, not {version}")
    release_notes(version, source)


def chart_of(source: Path) -> Path:
    return source / "deploy/helm/ringwise"


def release_notes(version: str, source: Path) -> str:
    """Return the section of the version in CHANGELOG.md, with links as plain text."""
    text = (source / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if section is None:
        raise ReleaseError(f"CHANGELOG.md has no section {version}")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", section[1]).strip()
    return f"# Ringwise {version}\n\n{plain}\n"


def files_below(folder: Path, prefix: str = "") -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {prefix + path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def build_packages(release: Release) -> Path:
    """Build wheel and sdist with the pinned setuptools, and return the wheel."""
    for name in ("build_sdist", "build_wheel"):
        code = f"import sys; from setuptools import build_meta; build_meta.{name}(sys.argv[1])"
        release.run(sys.executable, "-c", code, release.output)
    (sdist,) = release.output.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        files = {entry.name: tar.extractfile(entry) for entry in tar if entry.isfile()}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    # The archive of setuptools has the time of the build and the user who built it.
    release.archive(sdist.name, contents)
    (wheel,) = release.output.glob("*.whl")
    return wheel


def build_wheelhouses(release: Release, wheel: Path) -> None:
    """Collect Ringwise and its pinned dependencies for each architecture, to install without a network."""
    for architecture, machine in ARCHITECTURES.items():
        folder = release.source / f"wheels-{architecture}"
        platforms = [word for tag in MANYLINUX for word in ("--platform", f"{tag}_{machine}")]
        release.run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--require-hashes", "--only-binary=:all:", "--no-deps", "-r", "requirements.txt", "-d", folder),
            *("--implementation", "cp", "--python-version", PYTHON_TAG.removeprefix("cp"), *platforms),
        )
        shutil.copy(wheel, folder)
        shutil.copy(release.source / "requirements.txt", folder)
        name = f"ringwise-wheels-{release.version}-{PYTHON_TAG}-linux-{architecture}"
        release.archive(f"{name}.tar.gz", files_below(folder, f"{name}/"))


def build_sbom(release: Release, wheel: Path) -> None:
    """Install what users install into an empty environment, and describe it as CycloneDX."""
    environment = release.source / "environment"
    (machine,) = [name for name, wheels in ARCHITECTURES.items() if wheels == os.uname().machine]
    release.run(sys.executable, "-m", "venv", "--without-pip", environment)
    release.run(
        *(
            sys.executable,
            "-m",
            "pip",
            "--python",
            environment,
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ),
        *(
            "--no-index",
            "--find-links",
            release.source / f"wheels-{machine}",
            f"ringwise[device]=={release.version}",
        ),
    )
    target = release.output / f"ringwise-{release.version}.cdx.json"
    release.run(
        *(
            sys.executable,
            "-m",
            "cyclonedx_py",
            "environment",
            "--output-reproducible",
            "--output-format",
            "JSON",
        ),
        *(
            "--pyproject",
            "pyproject.toml",
            "--mc-type",
            "application",
            "-o",
            target,
            environment / "bin/python",
        ),
    )
    document = json.loads(target.read_text(encoding="utf-8"))
    # The version in pyproject.toml is dynamic, so the tool does not see it.
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    document["metadata"]["component"] |= {
        "version": release.version,
        "purl": f"pkg:pypi/ringwise@{release.version}",
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    target.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def build_plugin(release: Release, wheel: Path) -> None:
    """Build the archive of the kubectl plugin and its krew manifest."""
    launcher = (release.source / "tools/kubectl-ringwise").read_text(encoding="utf-8")
    files = {
        "kubectl-ringwise": launcher.replace("@VERSION@", release.version).encode(),
        "LICENSE": (release.source / "LICENSE").read_bytes(),
        "requirements.txt": (release.source / "requirements.txt").read_bytes(),
        wheel.name: wheel.read_bytes(),
    }
    archive = release.archive(
        f"kubectl-ringwise-{release.version}.tar.gz", files, frozenset({"kubectl-ringwise"})
    )
    platform = {
        "uri": f"{release.url}/{archive.name}",
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "bin": "kubectl-ringwise",
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]},
    }
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "ringwise"},
        "spec": {
            "version": f"v{release.version}",
            "shortDescription": "Explain and change scheduling on Ascend NPU clusters",
            "description": "Shows why a job is pending and what would start it, lists jobs, nodes and\n"
            "chips, and drains, isolates, reserves and defragments.\n",
            "caveats": "Requires Python 3.11 or newer. The first call installs the pinned\n"
            "dependencies into a directory of its own, from the configured package index.\n",
            "platforms": [platform],
        },
    }
    (release.output / "ringwise.krew.yaml").write_text(
        yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8"
    )


def build_texts(release: Release) -> None:
    """Build completions, schemas, chart, manifests and release notes from the exported sources."""
    command = (sys.executable, "-m", "ringwise")
    sources = {"PYTHONPATH": str(release.source / "src")}
    completions = {
        name: release.run(*command, "completion", shell, **sources).encode() for shell, name in SHELLS.items()
    }
    release.archive(f"ringwise-completions-{release.version}.tar.gz", completions)
    schemas = files_below(release.source / "build/lib/ringwise/views/schemas")
    pages = {"schemas.md": next(release.source.glob("docs/**/schemas.md")).read_bytes()}
    pages |= {name: text for name, text in schemas.items() if name.endswith(".json")}
    release.archive(f"ringwise-schemas-{release.version}.tar.gz", pages)
    chart = files_below(chart_of(release.source), "ringwise/")
    release.archive(
        f"ringwise-{release.version}.tgz", {n: f for n, f in chart.items() if ".helmignore" not in n}
    )
    manifests = files_below(release.source / "deploy/manifests", f"ringwise-manifests-{release.version}/")
    release.archive(f"ringwise-manifests-{release.version}.tar.gz", manifests)
    notes = release_notes(release.version, release.source)
    (release.output / "RELEASE_NOTES.md").write_text(notes, encoding="utf-8")


def write_checksums(release: Release) -> Iterator[tuple[str, int]]:
    """Write SHA256SUMS, and return name and size of every file."""
    files = sorted(path for path in release.output.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (release.output / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    return ((path.name, path.stat().st_size) for path in files)


def build(version: str, url: str, output: Path) -> None:
    if changed := git("status", "--porcelain"):
        raise ReleaseError(f"the checkout is not clean; commit or remove first:\n{changed.rstrip()}")
    if output.exists() and any(output.iterdir()):
        raise ReleaseError(f"{output} is not empty")
    with tempfile.TemporaryDirectory(prefix="ringwise-release-") as folder:
        source = Path(folder, "source")
        source.mkdir()
        exported = subprocess.run(
            ["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(exported)) as tar:
            tar.extractall(source, filter="data")
        check(version, source)
        output.mkdir(parents=True, exist_ok=True)
        epoch, commit = git("log", "-1", "--format=%ct %H").split()
        # Wheel and sdist have it; so has an image that is built from the sdist.
        (source / "src/ringwise/commit.txt").write_text(commit, encoding="utf-8")
        release = Release(version, url, source, int(epoch), output.resolve())
        wheel = build_packages(release)
        build_wheelhouses(release, wheel)
        build_sbom(release, wheel)
        build_plugin(release, wheel)
        build_texts(release)
        for name, size in write_checksums(release):
            print(f"{size / 1024:>9,.0f} KiB  {output / name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", help="version to release; every file that states one must agree")
    parser.add_argument("--url", required=True, help="base URL from which the files will be downloaded")
    parser.add_argument("--output", type=Path, required=True, help="empty or missing directory for the files")
    arguments = parser.parse_args()
    try:
        build(arguments.version, arguments.url, arguments.output)
    except ReleaseError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
