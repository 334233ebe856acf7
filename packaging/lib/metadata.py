"""What the packages say of gdn, from the one place where it stands."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUMMARY = "Runs swarms of agents that YAML files declare"
HOMEPAGE = "https://github.com/goondan/gdn"
LICENCE = "MIT OR Apache-2.0"
# Where releases lie: `BASE/latest/download/FILE` and `BASE/download/vVERSION/FILE`.
BASE = f"{HOMEPAGE}/releases"
NPM_NAME = "@goondan/gdn"
PYPI_NAME = "goondan-gdn"


def version():
    manifest = (ROOT / "Cargo.toml").read_text()
    section = manifest.split("[workspace.package]", 1)[1]
    return re.search(r'^version = "([^"]+)"', section, re.MULTILINE).group(1)
