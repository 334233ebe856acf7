"""The licences of the crates that are linked into the binary: whoever gives it away has to give them along."""

import functools
import json
import subprocess
from pathlib import Path

from .contents import DOC
from .metadata import ROOT

NAMES = ("licen", "copying", "notice", "unlicense")


def files(target):
    """`{path: bytes}` of the notice for a target."""
    used = set(cargo("tree", "-p", "goondan-cli", "-e", "normal,no-proc-macro", "--target", target.triple, "--prefix", "none",
                     "--format", "{p}").replace(" (*)", "").splitlines())
    crates = {f"{crate['name']} v{crate['version']}": crate for crate in known(target.triple) if crate["source"]}
    texts = {}
    rows = []
    for name in sorted(name for name in crates if name in used):
        crate = crates[name]
        rows.append(f"{name}: {crate['license'] or 'see its licence'}, {crate['repository'] or 'https://crates.io'}")
        for text in licence_texts(Path(crate["manifest_path"]).parent):
            texts.setdefault(text, []).append(name)
    parts = [f"{'=' * 80}\n{', '.join(names)}\n\n{text}" for text, names in texts.items()]
    head = "gdn contains these crates, under the licences that follow.\n\n" + "\n".join(rows) + "\n\n"
    return {f"{DOC}/THIRD-PARTY-LICENSES.txt": (head + "\n\n".join(parts) + "\n").encode()}


def licence_texts(folder):
    found = (path for path in folder.iterdir() if path.is_file() and path.name.lower().startswith(NAMES))
    texts = (path.read_text(errors="replace").replace("\r\n", "\n").strip() for path in sorted(found))
    return list(texts)


@functools.lru_cache(maxsize=None)
def known(triple):
    return json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", triple))["packages"]


def cargo(*args):
    return subprocess.run(["cargo", *args, "--locked"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
