"""Copy the libraries of the dashboard's page from their npm packages into the project.

    python tools/page/vendor.py

`make page-vendor` calls it. npm checks the packages against the hashes in package-lock.json. The files are
copied as they are, but for two things that a browser without a bundler needs: the name of another package
becomes the file beside it, and the reference to a source map, which is not copied, is left out. SHA256SUMS
has the hashes of the copies; a test compares them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "src/ringwise/web/page/vendor"
AXE = ROOT / "tests/web/browser/axe"
#: Folder -> file in it -> file of an npm package.
FILES = {
    PAGE: {
        "htm.js": "htm/dist/htm.module.js",
        "htm.LICENSE": "htm/LICENSE",
        "preact.js": "preact/dist/preact.mjs",
        "preact-hooks.js": "preact/hooks/dist/hooks.mjs",
        "preact.LICENSE": "preact/LICENSE",
        "uplot.js": "uplot/dist/uPlot.esm.js",
        "uplot.css": "uplot/dist/uPlot.min.css",
        "uplot.LICENSE": "uplot/LICENSE",
    },
    AXE: {
        "axe.js": "axe-core/axe.min.js",
        "axe.LICENSE": "axe-core/LICENSE",
        "axe.LICENSE-3RD-PARTY": "axe-core/LICENSE-3RD-PARTY.txt",
    },
}
IMPORTS = {'from"preact"': 'from"./preact.js"'}
SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*\n?", re.MULTILINE)


def copy_of(source: Path) -> bytes:
    """A file of a package as the browser needs it."""
    if source.suffix not in {".js", ".mjs"}:
        return source.read_bytes()
    text = SOURCE_MAP.sub("", source.read_text(encoding="utf-8"))
    for package, file in IMPORTS.items():
        text = text.replace(package, file)
    return text.encode()


def main() -> None:
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is not found: it comes with Node.js, and only updating the page's libraries needs it")
    subprocess.run([npm, "ci", "--silent", "--prefix", str(HERE)], cwd=HERE, check=True)
    packages = HERE / "node_modules"
    for folder, files in FILES.items():
        folder.mkdir(parents=True, exist_ok=True)
        sums = []
        for name, source in sorted(files.items()):
            content = copy_of(packages / source)
            (folder / name).write_bytes(content)
            version = json.loads((packages / source.split("/")[0] / "package.json").read_bytes())["version"]
            sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
            print(f"{name}: {source.split('/')[0]} {version}")
        (folder / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


if __name__ == "__main__":
    main()
