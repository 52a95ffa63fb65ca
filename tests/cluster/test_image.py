"""The components as in their image: an unprivileged user, read-only file systems, a pod's service account."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

import pytest

from ringwise.wellknown import VOLCANO_SYSTEM
from ringwise_bench.control_plane import ControlPlane, Process
from tests.cluster.cluster import WITH_ADMISSION, Cluster, check_chips, shipped_objects
from tests.cluster.objects import nodes, vcjob

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "mount"))),
        reason="only root can remount the disk read-only and change the user",
    ),
]

ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"
#: Everything read-only, a pod's account in its place, then another user without capabilities. Reading
#: everything is left to it, because the interpreter may stand in a private folder; in an image it does not.
CONFINE = f"""
mount -t tmpfs tmpfs /run
mkdir -p {ACCOUNT}
cp "$1"/* {ACCOUNT}/
shift
while read -r _ where kind _; do
  case $kind in
    proc|sysfs|devtmpfs|devpts|cgroup*|mqueue|bpf|tracefs|debugfs|securityfs) ;;
    *) mount -o remount,ro,bind "$where" || echo "$where stays as it is" ;;
  esac
done < /proc/mounts
cd /
left=-all,+dac_read_search
exec setpriv --reuid=65532 --regid=65532 --clear-groups --no-new-privs \\
  --bounding-set=$left --inh-caps=$left --ambient-caps=$left "$@"
"""
#: Run before the command: it checks the confinement.
PROBE = """
import os, tempfile
assert os.getuid() == 65532
try:
    tempfile.TemporaryFile()
except OSError:
    pass
else:
    raise SystemExit("there is a place to write to")
"""


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ringwise as in the image: built from the files that the Dockerfile copies, and installed."""
    source, installed = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=leave_out)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    build = ["--no-deps", "--no-build-isolation", "--no-index", f"--target={installed}", str(source)]
    done = subprocess.run([*pip, *build], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return installed


def environment(package: Path) -> dict[str, str]:
    """A clean environment: no home, no path to the sources. Dependencies come after the package itself."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{package}:{sysconfig.get_path('purelib')}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "POD_NAMESPACE": VOLCANO_SYSTEM,
    }


def confined(account: Path, arguments: list[str]) -> list[str | Path]:
    # Without the site-packages of the interpreter, which link to the sources.
    program = f"{PROBE}\nfrom ringwise.cli.main import main\nmain()"
    shell: list[str | Path] = [
        "unshare",
        "--mount",
        "--propagation=private",
        "sh",
        "-ec",
        CONFINE,
        "confine",
        account,
    ]
    return [*shell, sys.executable, "-S", "-c", program, *arguments]


def launch_confined(
    package: Path, plane: ControlPlane, name: str, arguments: list[str], token: str
) -> Process:
    account = plane.folder / f"{name}.account"
    account.mkdir()
    written = {"token": token, "ca.crt": plane.authority.read_text(), "namespace": VOLCANO_SYSTEM}
    for file, text in written.items():
        (account / file).write_text(text)
        (account / file).chmod(0o644)
    host, _, port = plane.url.removeprefix("https://").rpartition(":")
    server = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    env = ["env", "-i", *(f"{key}={value}" for key, value in {**environment(package), **server}.items())]
    return plane.run(name, [*env, *confined(account, arguments)])


def test_components_need_no_writable_disk_no_home_and_no_privileges(cluster: Cluster, package: Path) -> None:
    cluster.apply(nodes(2))
    cluster.apply(shipped_objects(WITH_ADMISSION))
    launch = partial(launch_confined, package)
    admission = ["--address=127.0.0.1:0"]
    started = [
        cluster.start(kind, *(admission if kind == "admission" else ()), launch=launch)
        for kind in ("scheduler", "controller", "admission")
    ]
    for component in started:
        cluster.wait(partial(getattr, component, "ready"), f"{component.kind} is ready")
        status = Path(f"/proc/{component.process.pid}/status").read_text()
        assert "Uid:\t65532\t65532\t65532\t65532\n" in status
        assert "NoNewPrivs:\t1\n" in status
    cluster.apply([vcjob("train", 2, 8)])
    check_chips(cluster.wait_running("train", 2))
    for component in started:
        component.stop()
        assert "Traceback" not in component.log()


def test_image_has_all_files_of_the_package(package: Path) -> None:
    """A file that is not installed is not in the image, such as boards."""
    source = ROOT / "src" / "ringwise"
    wanted = {
        path.relative_to(source)
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    there = {path.relative_to(package / "ringwise") for path in (package / "ringwise").rglob("*")}
    assert wanted - there == set()
    assert (package / "bin" / "kubectl-ringwise").is_file()
