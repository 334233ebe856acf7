"""What is installed, as paths below a prefix such as `~/.local`. Each kind of package brings these files to the same places."""

import subprocess
import tempfile
from pathlib import Path

from .metadata import ROOT

DOC = "share/doc/gdn"
COMPLETIONS = {
    "bash": "share/bash-completion/completions/gdn",
    "zsh": "share/zsh/site-functions/_gdn",
    "fish": "share/fish/vendor_completions.d/gdn.fish",
    "elvish": "share/elvish/lib/gdn.elv",
    "powershell": "share/powershell/gdn.ps1",
}


def shared(gdn):
    """The files that are the same for every system, as `{path: bytes}`; the program `gdn` writes some of them."""
    files = {f"{DOC}/{name}": (ROOT / name).read_bytes()
             for name in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md"]}
    for shell, path in COMPLETIONS.items():
        files[path] = subprocess.run([gdn, "completions", shell], check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([gdn, "man", folder], check=True)
        for page in Path(folder).iterdir():
            files[f"share/man/man1/{page.name}"] = page.read_bytes()
    return files


def tree(target, binary, files):
    """All files of a package, sorted, as `{path: (bytes, mode)}`."""
    whole = {f"bin/{target.executable}": (binary, 0o755), **{path: (data, 0o644) for path, data in files.items()}}
    return dict(sorted(whole.items()))
