"""What others build their packages from: the installers, a formula for Homebrew and a flake for Nix, with checksums in them."""

import base64

from . import archive
from .metadata import BASE, HOMEPAGE, ROOT, SUMMARY

HOMEBREW = {("darwin", "arm64", ""): ("macos", "arm"), ("darwin", "x64", ""): ("macos", "intel"),
            ("linux", "arm64", "glibc"): ("linux", "arm"), ("linux", "x64", "glibc"): ("linux", "intel")}
NIX = {"x86_64-unknown-linux-gnu": "x86_64-linux", "aarch64-unknown-linux-gnu": "aarch64-linux",
       "x86_64-apple-darwin": "x86_64-darwin", "aarch64-apple-darwin": "aarch64-darwin"}


def write(out, version, targets):
    made = []
    for name in ["install.sh", "install.ps1"]:
        path = out / name
        path.write_bytes((ROOT / "packaging" / name).read_bytes())
        path.chmod(0o755)
        made.append(path)
    formula = out / "gdn.rb"
    formula.write_text(homebrew(out, version, targets))
    made.append(formula)
    lock = {"flake/flake.nix": (nix(out, version, targets).encode(), 0o644)}
    flake = out / "gdn-flake.tar.gz"
    flake.write_bytes(archive.tarred(lock))
    return [*made, flake]


def homebrew(out, version, targets):
    blocks = []
    for target in targets:
        place = HOMEBREW.get((target.os, target.cpu, target.libc))
        if place:
            file = target.archive(version)
            blocks.append(f'  on_{place[0]} do\n    on_{place[1]} do\n      url "{url(version, file)}"\n'
                          f'      sha256 "{archive.sha256(out / file)}"\n    end\n  end\n')
    return filled("gdn.rb", version, {"@SYSTEMS@": "\n".join(blocks)})


def nix(out, version, targets):
    rows = []
    for target in targets:
        if target.triple in NIX:
            file = target.archive(version)
            sri = base64.b64encode(bytes.fromhex(archive.sha256(out / file))).decode()
            rows.append(f'        {NIX[target.triple]} = {{\n          url = "{url(version, file)}";\n'
                        f'          hash = "sha256-{sri}";\n        }};\n')
    return filled("flake.nix", version, {"@SYSTEMS@": "".join(rows)})


def url(version, file):
    return f"{BASE}/download/v{version}/{file}"


def filled(name, version, more):
    text = (ROOT / "packaging/templates" / name).read_text()
    for mark, value in {"@VERSION@": version, "@SUMMARY@": SUMMARY, "@HOMEPAGE@": HOMEPAGE, **more}.items():
        text = text.replace(mark, value.rstrip("\n") if text.count(f"{mark}\n") else value)
    return text
