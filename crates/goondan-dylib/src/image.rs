//! Looks at a library's file before the system's loader does: the loader may crash on a file that is cut short, and says less.

use std::env::consts::{ARCH, OS};
use std::fs::File;
use std::path::Path;

use goondan_abi::raw::SYMBOL;
use object::read::NameOrOrdinal;
use object::{Architecture, BinaryFormat, Object, ObjectKind, ObjectSegment, ReadCache, ReadRef};

use crate::failure::Failure;

/// Checks that the file at `path` is a whole dynamic library for this machine that exports the symbol. `name` is for messages.
pub(crate) fn check(name: &str, path: &Path) -> Result<(), Failure> {
    let file = File::open(path).map_err(|cause| Failure::new(format!("{name} cannot be read: {cause}")))?;
    // Most of a library is code, which is not looked at.
    check_content(name, &ReadCache::new(file))
}

fn check_content<'d>(name: &str, content: impl ReadRef<'d>) -> Result<(), Failure> {
    let size = content.len().map_err(|()| damaged(name, "its size is not known"))?;
    let kind = object::FileKind::parse(content).map_err(|_| not_a_library(name, size))?;
    if matches!(kind, object::FileKind::MachOFat32 | object::FileKind::MachOFat64) {
        // Several architectures in one file: the loader picks, and says so where none fits.
        return Ok(());
    }
    let file = object::File::parse(content).map_err(|cause| damaged(name, &cause.to_string()))?;
    if file.kind() != ObjectKind::Dynamic {
        return Err(not_a_library(name, size));
    }
    if !fits_this_machine(file.format(), file.architecture()) {
        return Err(foreign(name, file.format(), file.architecture()));
    }
    let is_there = |(start, length): (u64, u64)| start.checked_add(length).is_some_and(|end| end <= size);
    if !file.segments().all(|segment| is_there(segment.file_range())) {
        return Err(damaged(name, "a segment lies beyond its end"));
    }
    let exports = file.exports().map_err(|cause| damaged(name, &cause.to_string()))?;
    for export in exports {
        let export = export.map_err(|cause| damaged(name, &cause.to_string()))?;
        if matches!(export.name(), NameOrOrdinal::Name(export) if is_symbol(export)) {
            return Ok(());
        }
    }
    Err(no_symbol(name))
}

/// Mach-O puts an underscore before every C name.
fn is_symbol(export: &[u8]) -> bool {
    export.strip_prefix(b"_").unwrap_or(export) == SYMBOL.as_bytes()
}

fn fits_this_machine(format: BinaryFormat, architecture: Architecture) -> bool {
    let own_format = match OS {
        "macos" | "ios" => BinaryFormat::MachO,
        "windows" => BinaryFormat::Pe,
        _ => BinaryFormat::Elf,
    };
    let own_architecture = match ARCH {
        "x86_64" => Architecture::X86_64,
        "aarch64" => Architecture::Aarch64,
        "x86" => Architecture::I386,
        "arm" => Architecture::Arm,
        "riscv64" => Architecture::Riscv64,
        "powerpc64" => Architecture::PowerPc64,
        "s390x" => Architecture::S390x,
        // The loader decides.
        _ => architecture,
    };
    (format, architecture) == (own_format, own_architecture)
}

fn not_a_library(name: &str, size: u64) -> Failure {
    let what = if size == 0 { "is empty" } else { "is not a dynamic library" };
    Failure::new(format!("{name} {what}"))
        .suggest("build a `cdylib` (Rust: `crate-type = [\"cdylib\"]`; C: `cc -shared -fPIC`) and name the file that comes of it")
}

fn damaged(name: &str, cause: &str) -> Failure {
    Failure::new(format!("{name} is damaged or not completely written: {cause}"))
        .suggest("build it again; if it was just being built, reload once that is done")
}

fn foreign(name: &str, format: BinaryFormat, architecture: Architecture) -> Failure {
    Failure::new(format!(
        "{name} is built for another machine ({format:?}, {architecture:?}); this one is {OS} on {ARCH}"
    ))
    .suggest(format!(
        "build it for {ARCH} on {OS}, such as by `cargo build --target` with the triple that `rustc -vV` prints as host"
    ))
}

fn no_symbol(name: &str) -> Failure {
    Failure::new(format!("{name} does not export `{SYMBOL}`, so it is not a tool library")).suggest(
        "add `export_tools!` of goondan-abi (or define `goondan_plugin` of include/goondan_plugin.h), and rebuild",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: &[u8]) -> String {
        check_content("x.so", bytes).expect_err("refused").message
    }

    #[test]
    fn what_is_no_library_is_told_apart() {
        assert_eq!(message(b""), "x.so is empty");
        assert_eq!(message(b"#!/bin/sh\necho hi\n"), "x.so is not a dynamic library");
        assert!(message(&[b"\x7fELF\x02\x01\x01".as_slice(), &[0; 25]].concat()).contains("x.so is damaged"));
    }

    #[test]
    fn no_prefix_of_a_real_file_panics_or_passes() {
        let own = std::fs::read(std::env::current_exe().expect("a path")).expect("readable");
        let lengths = (0..64).chain((64..own.len()).step_by(own.len() / 200));
        for length in lengths {
            assert!(check_content("x.so", &own[..length]).is_err());
        }
        assert!(message(&own).contains("does not export") || message(&own).contains("not a dynamic library"));
    }
}
