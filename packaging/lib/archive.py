"""Archives whose bytes depend on their files alone: sorted, with a fixed time, without owners."""

import gzip
import hashlib
import io
import os
import tarfile
import time
import zipfile

# The earliest time that a zip can hold.
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", 315532800))
# A higher level takes thrice the time for a hundredth of the size.
LEVEL = 6


def write(out, version, target, files):
    """The archive that installers download. Unpacked without its first folder, it is the prefix."""
    path = out / target.archive(version)
    inside = {f"{target.folder(version)}/{name}": entry for name, entry in files.items()}
    path.write_bytes(zipped(inside) if target.archive_suffix == ".zip" else tarred(inside))
    return path


def tarred(files):
    """A `.tar.gz` of `{path: (bytes, mode)}`."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (data, mode) in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), mode, EPOCH
            tar.addfile(info, io.BytesIO(data))
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=LEVEL, mtime=0, filename="") as stream:
        stream.write(plain.getbuffer())
    return packed.getvalue()


def zipped(files):
    """A `.zip` of `{path: (bytes, mode)}`."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for name, (data, mode) in files.items():
            info = zipfile.ZipInfo(name, time.gmtime(max(EPOCH, 315532800))[:6])
            # Unix, whatever this runs on: the mode is what makes the binary executable.
            info.create_system, info.external_attr = 3, (0o100000 | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data, compresslevel=LEVEL)
    return packed.getvalue()


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
