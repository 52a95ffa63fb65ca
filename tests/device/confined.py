"""Runs the device plugin as another user, on a file system of which only some folders can be written.

    python -m tests.device.confined UID FOLDER,FOLDER... ARGUMENT...

All modules are loaded first, so that the user needs no access to the folder of the interpreter. With folders
it must be started with `unshare --mount`; without any the file system stays as it is.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401
import encodings.idna  # noqa: F401
import importlib.readers
import importlib.resources.readers  # noqa: F401
import os
import subprocess
import sys

import ringwise.apps.device_plugin
import ringwise.apps.logs  # noqa: F401
from ringwise.cli.run.device_plugin import device_plugin_command

#: File systems that hold no files of programs.
_KERNEL = ("/proc", "/sys", "/dev")


def _make_read_only(folders: list[str]) -> None:
    """Every mount of this process' own namespace; a folder that is mounted onto itself stays as it is."""

    def mount(*arguments: str) -> None:
        subprocess.run(["mount", *arguments], check=True)

    mount("--make-rprivate", "/")
    with open("/proc/self/mounts", encoding="utf-8") as table:
        points = {line.split()[1] for line in table}
    for folder in folders:
        mount("--bind", folder, folder)
    for point in sorted(points):
        if not point.startswith(_KERNEL):
            mount("-o", "remount,bind,ro", point)


def main() -> None:
    user, folders, *arguments = sys.argv[1:]
    if folders:
        _make_read_only(folders.split(","))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    os.umask(0o077)
    sys.exit(device_plugin_command.main(arguments, standalone_mode=False))


if __name__ == "__main__":
    main()
