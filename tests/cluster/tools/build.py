#!/usr/bin/env python3
"""Find the programs of a real control plane, or build them once with Go.

Only the standard library: it runs before anything of the project is installed, and prints the path
of every program asked for.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Program:
    """One program: the module folder that pins it, the package to build, and its module's name there."""

    name: str
    folder: str
    package: str
    module: str


PROGRAMS = {
    program.name: program
    for program in (
        Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
        Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes"),
        Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes"),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
        Program("helm", "helm", "helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3"),
        Program(
            "kube-controller-manager",
            "kubernetes",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes",
        ),
        Program("kubelet", "kubernetes", "k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes"),
        Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", "k8s.io/kubernetes"),
    )
}
# kube-scheduler is only for comparisons, so the tests do not wait for it.
FOR_TESTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kwok", "helm", "kubelet")

MISSING_GO = """\
The cluster tests need {programs}, which were not found and cannot be built: there is no Go on the path.
Do one of these:
  - install Go {go} or newer (https://go.dev/doc/install), and run the target again: it builds them once;
  - put the programs on the path, or into a folder named by KUBEBUILDER_ASSETS.
`make test` needs none of this: it runs the same code against a fake API server."""


class CannotBuild(Exception):
    """The programs are missing and cannot be built; the message says what to do."""


def pinned_version(program: Program) -> str:
    """The version of a program in its go.mod."""
    text = (HERE / program.folder / "go.mod").read_text()
    found = re.search(rf"^(?:require )?\s*{re.escape(program.module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise CannotBuild(f"{program.folder}/go.mod does not pin {program.module}")
    return found.group(1)


def cache_folder() -> Path:
    """The folder in which built programs are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "ringwise" / "cluster-tools"


def built_path(program: Program) -> Path:
    """The path of a program built from its pinned version."""
    return cache_folder() / f"{program.folder}-{pinned_version(program)}" / program.name


def program_path(name: str) -> Path | None:
    """An existing program: in KUBEBUILDER_ASSETS, on the PATH, or built before."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and os.access(Path(assets) / name, os.X_OK):
        return Path(assets) / name
    found = shutil.which(name)
    if found:
        return Path(found)
    built = built_path(PROGRAMS[name])
    return built if os.access(built, os.X_OK) else None


def build(program: Program) -> Path:
    """Build one program; a failed build leaves no file."""
    target = built_path(program)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    print(
        f"building {program.name} {pinned_version(program)} (once; kept in {target.parent})", file=sys.stderr
    )
    started = time.monotonic()
    version = pinned_version(program)
    flags = ["-s", "-w"]
    if program.folder == "kubernetes":
        major, minor = version.lstrip("v").split(".")[:2]
        for place in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += [f"-X {place}.gitVersion={version}"]
            flags += [f"-X {place}.gitMajor={major}", f"-X {place}.gitMinor={minor}"]
    command = [
        "go",
        "build",
        "-trimpath",
        "-ldflags",
        " ".join(flags),
        "-o",
        str(unfinished),
        program.package,
    ]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(command, cwd=HERE / program.folder, env=environment, check=False)
    if done.returncode != 0:
        unfinished.unlink(missing_ok=True)
        raise CannotBuild(f"{program.name} did not build; the lines above say why")
    unfinished.replace(target)
    print(f"built {program.name} in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return target


def gather(names: list[str]) -> dict[str, Path]:
    """The path of each program; missing ones are built."""
    paths = {name: program_path(name) for name in names}
    missing = [name for name, path in paths.items() if path is None]
    if missing and shutil.which("go") is None:
        go = re.search(r"^go (\S+)", (HERE / "kubernetes" / "go.mod").read_text(), re.MULTILINE)
        raise CannotBuild(MISSING_GO.format(programs=", ".join(missing), go=go.group(1) if go else "1.25"))
    return {name: path or build(PROGRAMS[name]) for name, path in paths.items()}


def main() -> int:
    """Print the path of each program, one per line: name, tab, path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", help=f"some of {', '.join(PROGRAMS)}")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.programs if name not in PROGRAMS]
    if unknown:
        parser.error(f"unknown program {unknown[0]}: one of {', '.join(PROGRAMS)}")
    try:
        for name, path in gather(arguments.programs or list(FOR_TESTS)).items():
            print(f"{name}\t{path}")
    except CannotBuild as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
