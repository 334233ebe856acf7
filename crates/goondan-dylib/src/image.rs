//! Checks a library's file before the system's loader reads it. The loader can crash on a truncated
//! file, and its messages are less precise.

use std::env::consts::{ARCH, OS};
use std::path::Path;

use goondan_abi::raw::SYMBOL;
use goondan_core::ports::tool::EntryOpenError;
use goondan_spec::{ResourceId, regular_file};
use object::read::NameOrOrdinal;
use object::{Architecture, BinaryFormat, Object, ObjectKind, ObjectSegment, ReadCache, ReadRef};

use crate::failure::LibraryFailure;
use crate::locate::library;

/// Returns the error that prevents opening the library of `tool`, as far as it can be detected
/// without loading.
pub fn fault(tool: &ResourceId, bundle_root: &Path, entry: &str) -> Option<EntryOpenError> {
    let library = library(bundle_root, entry);
    let checked = library.and_then(|path| check(&format!("the library `{entry}`"), &path));
    checked.err().map(|failure| failure.of(tool))
}

/// Checks that `path` is a complete dynamic library for this machine that exports the symbol.
/// `name` is for messages.
pub(crate) fn check(name: &str, path: &Path) -> Result<(), LibraryFailure> {
    let file = regular_file::open(path).map_err(|cause| LibraryFailure::Unreadable {
        name: name.to_owned(),
        cause,
    })?;
    // The cache reads only the accessed ranges, because most of a library is code.
    check_content(name, &ReadCache::new(file))
}

/// Checks that the file content is a library for this machine.
fn check_content<'d>(name: &str, content: impl ReadRef<'d>) -> Result<(), LibraryFailure> {
    let size = content
        .len()
        .map_err(|()| damaged_library_failure(name, "its size is unknown"))?;
    let kind = object::FileKind::parse(content).map_err(|_| not_a_library_failure(name, size))?;
    if matches!(
        kind,
        object::FileKind::MachOFat32 | object::FileKind::MachOFat64
    ) {
        // A file with several architectures: the loader selects one, and reports an error if none
        // fits.
        return Ok(());
    }
    let file =
        object::File::parse(content).map_err(|cause| damaged_library_failure(name, cause))?;
    if file.kind() != ObjectKind::Dynamic {
        return Err(not_a_library_failure(name, size));
    }
    if !fits_this_machine(file.format(), file.architecture()) {
        let (format, architecture) = (file.format(), file.architecture());
        return Err(LibraryFailure::Foreign {
            name: name.to_owned(),
            format,
            architecture,
        });
    }
    let is_inside =
        |(start, length): (u64, u64)| start.checked_add(length).is_some_and(|end| end <= size);
    if !file
        .segments()
        .all(|segment| is_inside(segment.file_range()))
    {
        return Err(damaged_library_failure(
            name,
            "a segment extends past the end of the file",
        ));
    }
    let exports = file
        .exports()
        .map_err(|cause| damaged_library_failure(name, cause))?;
    for export in exports {
        let export = export.map_err(|cause| damaged_library_failure(name, cause))?;
        if matches!(export.name(), NameOrOrdinal::Name(export) if is_symbol(export)) {
            return Ok(());
        }
    }
    Err(LibraryFailure::NoSymbol {
        name: name.to_owned(),
    })
}

/// Mach-O prefixes every C name with an underscore.
fn is_symbol(export: &[u8]) -> bool {
    export.strip_prefix(b"_").unwrap_or(export) == SYMBOL.as_bytes()
}

/// Returns true if this machine can load a library of this format and architecture.
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
        // Unknown architectures are left to the loader.
        _ => architecture,
    };
    (format, architecture) == (own_format, own_architecture)
}

/// Returns the error of a file of `size` bytes that is not a library.
fn not_a_library_failure(name: &str, size: u64) -> LibraryFailure {
    let name = name.to_owned();
    if size == 0 {
        LibraryFailure::Empty { name }
    } else {
        LibraryFailure::OtherFile { name }
    }
}

/// Returns the error of a library file that cannot be parsed.
fn damaged_library_failure(
    name: &str,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> LibraryFailure {
    LibraryFailure::Damaged {
        name: name.to_owned(),
        cause: cause.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: &[u8]) -> String {
        check_content("x.so", bytes)
            .expect_err("the content is rejected")
            .to_string()
    }

    #[test]
    fn errors_distinguish_kinds_of_invalid_content() {
        assert_eq!(message(b""), "x.so is empty");
        assert_eq!(
            message(b"#!/bin/sh\necho hi\n"),
            "x.so is not a dynamic library"
        );
        assert!(
            message(&[b"\x7fELF\x02\x01\x01".as_slice(), &[0; 25]].concat())
                .contains("x.so is damaged")
        );
    }

    #[test]
    fn a_truncated_executable_is_rejected_without_panic() {
        let executable = std::fs::read(std::env::current_exe().expect("a path")).expect("readable");
        let lengths = (0..64).chain((64..executable.len()).step_by(executable.len() / 200));
        for length in lengths {
            assert!(check_content("x.so", &executable[..length]).is_err());
        }
        assert!(
            message(&executable).contains("does not export")
                || message(&executable).contains("not a dynamic library")
        );
    }
}
