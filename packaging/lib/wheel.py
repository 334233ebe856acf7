"""PyPI: a wheel for each system, with the binary as a script. It holds no Python."""

import base64
import hashlib
import re

from . import archive
from .contents import DOC
from .metadata import HOMEPAGE, LICENCE, PYPI_NAME, ROOT, SUMMARY

MACHINES = {"x64": "x86_64", "arm64": "aarch64"}


def write(out, version, target, tree):
    # As PEP 440 spells it: 1.2.0-rc.1 is 1.2.0rc1.
    version = re.sub(r"-(alpha|beta|rc)\.?", lambda match: {"alpha": "a", "beta": "b", "rc": "rc"}[match[1]], version)
    stem = f"{PYPI_NAME.replace('-', '_')}-{version}"
    tag = f"py3-none-{platform_tag(target, tree)}"
    info = f"{stem}.dist-info"
    files = {}
    for name, entry in tree.items():
        if name.startswith("bin/"):
            files[f"{stem}.data/scripts/{name.removeprefix('bin/')}"] = entry
        elif "LICENSE" in name:
            files[f"{info}/licenses/{name.removeprefix(f'{DOC}/')}"] = entry
        elif not name.startswith(DOC):
            files[f"{stem}.data/data/{name}"] = entry
    licences = sorted(name.rsplit("/", 1)[1] for name in files if name.startswith(f"{info}/licenses/"))
    files[f"{info}/METADATA"] = (metadata(version, licences).encode(), 0o644)
    wheel = f"Wheel-Version: 1.0\nGenerator: packaging/build\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{info}/WHEEL"] = (wheel.encode(), 0o644)
    record = f"{info}/RECORD"
    rows = [f"{name},sha256={digest(data)},{len(data)}" for name, (data, _) in files.items()]
    files[record] = (("\n".join([*rows, f"{record},,"]) + "\n").encode(), 0o644)
    path = out / f"{stem}-{tag}.whl"
    path.write_bytes(archive.zipped(files))
    return path


def platform_tag(target, tree):
    if target.wheel:
        return target.wheel
    binary, _ = tree[f"bin/{target.executable}"]
    # The names of the versions of symbols stand in the table of strings. pip refuses a wheel where glibc is older.
    minor = max(int(found) for found in re.findall(rb"\0GLIBC_2\.(\d+)(?=[\0.])", binary))
    return f"manylinux_2_{max(minor, 17)}_{MACHINES[target.cpu]}"


def metadata(version, licences):
    head = [
        "Metadata-Version: 2.4", f"Name: {PYPI_NAME}", f"Version: {version}", f"Summary: {SUMMARY}",
        f"License-Expression: {LICENCE}", *(f"License-File: {name}" for name in licences),
        f"Project-URL: Homepage, {HOMEPAGE}", "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(head) + "\n\n" + (ROOT / "packaging/npm/README.md").read_text()


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
