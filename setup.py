"""Build the wheel, with the JSON schemas of all documents and the commit that RINGWISE_COMMIT names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithSchemas(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            sys.path.insert(0, "src")
            from ringwise.views.schemas import DOCUMENTS, schema_text

            folder = Path(self.build_lib, "ringwise", "views", "schemas")
            for kind in DOCUMENTS:
                (folder / kind.file).write_text(schema_text(kind), encoding="utf-8")
            if commit := os.environ.get("RINGWISE_COMMIT"):
                Path(self.build_lib, "ringwise", "commit.txt").write_text(commit, encoding="utf-8")


setup(cmdclass={"build_py": BuildWithSchemas})
