"""npm: a package for each system with nothing but the binary, and one that chooses among them when it is installed.

npm leaves out the optional dependencies whose `os`, `cpu` and `libc` don't fit. Nothing is downloaded by a script.
"""

import json

from . import archive
from .contents import DOC
from .metadata import HOMEPAGE, LICENCE, NPM_NAME, ROOT, SUMMARY


def platform_package(out, version, target, tree):
    manifest = {
        **described(f"{NPM_NAME}-{target.npm}", version, f"The binary of {NPM_NAME} for {target.triple}"),
        "os": [target.os],
        "cpu": [target.cpu],
        **({"libc": [target.libc]} if target.libc else {}),
        "preferUnplugged": True,
    }
    licences = {name.removeprefix(f"{DOC}/"): entry for name, entry in tree.items() if "LICENSE" in name}
    binary = {name: entry for name, entry in tree.items() if name.startswith("bin/")}
    return pack(out, manifest, {**binary, **licences})


def meta_package(out, version, targets):
    # Both kinds of binaries for Windows do the same; the first one is taken.
    names = dict.fromkeys(f"{NPM_NAME}-{target.npm}" for target in targets)
    manifest = {
        **described(NPM_NAME, version, SUMMARY),
        "bin": {"gdn": "bin/gdn.js"},
        "engines": {"node": ">=18"},
        "optionalDependencies": {name: version for name in sorted(names)},
    }
    files = {
        "bin/gdn.js": ((ROOT / "packaging/npm/gdn.js").read_bytes(), 0o755),
        "README.md": ((ROOT / "packaging/npm/README.md").read_bytes(), 0o644),
        **{name: ((ROOT / name).read_bytes(), 0o644) for name in ["LICENSE-MIT", "LICENSE-APACHE"]},
    }
    return pack(out, manifest, files)


def described(name, version, description):
    return {
        "name": name,
        "version": version,
        "description": description,
        "license": LICENCE,
        "homepage": HOMEPAGE,
        "repository": {"type": "git", "url": f"git+{HOMEPAGE}.git"},
        "publishConfig": {"access": "public"},
    }


def pack(out, manifest, files):
    """What `npm pack` would write."""
    text = json.dumps(manifest, indent=2) + "\n"
    inside = {"package/package.json": (text.encode(), 0o644),
              **{f"package/{name}": entry for name, entry in sorted(files.items())}}
    path = out / f"{manifest['name'].lstrip('@').replace('/', '-')}-{manifest['version']}.tgz"
    path.write_bytes(archive.tarred(inside))
    return path
