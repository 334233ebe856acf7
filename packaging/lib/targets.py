"""The systems that gdn is shipped for, and what each kind of package calls them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    triple: str
    # npm: process.platform, process.arch, and which C library on Linux.
    os: str
    cpu: str
    libc: str = ""
    # The platform tag of a wheel; on Linux with glibc the binary itself says which version it needs.
    wheel: str = ""

    @property
    def executable(self):
        return "gdn.exe" if self.os == "win32" else "gdn"

    @property
    def archive_suffix(self):
        return ".zip" if self.os == "win32" else ".tar.gz"

    def archive(self, version):
        return f"{self.folder(version)}{self.archive_suffix}"

    def folder(self, version):
        return f"gdn-{version}-{self.triple}"

    @property
    def npm(self):
        return f"{self.os}-{self.cpu}" + ("-musl" if self.libc == "musl" else "")


TARGETS = {target.triple: target for target in [
    Target("x86_64-unknown-linux-gnu", "linux", "x64", "glibc"),
    Target("aarch64-unknown-linux-gnu", "linux", "arm64", "glibc"),
    Target("x86_64-unknown-linux-musl", "linux", "x64", "musl", "musllinux_1_1_x86_64"),
    Target("aarch64-unknown-linux-musl", "linux", "arm64", "musl", "musllinux_1_1_aarch64"),
    Target("x86_64-apple-darwin", "darwin", "x64", "", "macosx_10_12_x86_64"),
    Target("aarch64-apple-darwin", "darwin", "arm64", "", "macosx_11_0_arm64"),
    Target("x86_64-pc-windows-msvc", "win32", "x64", "", "win_amd64"),
    Target("x86_64-pc-windows-gnu", "win32", "x64", "", "win_amd64"),
]}
