//! Compares the C header with the Rust tables: names, values, sizes and offsets.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use goondan_abi::raw::{self, Bytes, ExtendingLibrary, Host, Library, Plugin, Status};

/// Returns the C names with the Rust values, in the order in which the compiled C program prints
/// them.
fn expected() -> Vec<(String, i128)> {
    let mut rows = Vec::new();
    macro_rules! layout {
        ($rust:ty, $c:literal, [$($field:ident = $c_field:literal),+ $(,)?]) => {
            rows.push((format!("sizeof({})", $c), size_of::<$rust>() as i128));
            $(rows.push((format!("offsetof({}, {})", $c, $c_field), offset_of!($rust, $field) as i128));)+
        };
    }
    layout!(Bytes, "goondan_bytes", [ptr = "ptr", len = "len"]);
    layout!(
        Host,
        "goondan_host",
        [
            ctx = "ctx",
            struct_size = "struct_size",
            abi_major = "abi_major",
            abi_minor = "abi_minor",
            max_payload = "max_payload",
            complete = "complete",
            progress = "progress",
            log = "log",
            request = "request",
            cancelled = "cancelled",
        ]
    );
    layout!(
        Library,
        "goondan_library",
        [
            this = "self",
            describe = "describe",
            start = "start",
            cancel = "cancel",
            reply = "reply",
            close = "close",
        ]
    );
    layout!(
        ExtendingLibrary,
        "goondan_extending_library",
        [library = "library", extend = "extend"]
    );
    layout!(
        Plugin,
        "goondan_plugin_entry",
        [
            magic = "magic",
            abi_major = "abi_major",
            abi_minor = "abi_minor",
            struct_size = "struct_size",
            library_size = "library_size",
            flags = "flags",
            open = "open",
        ]
    );
    rows.extend(constants());
    rows
}

fn constants() -> Vec<(String, i128)> {
    let statuses = [
        Status::OK,
        Status::BAD_ARGUMENT,
        Status::UNKNOWN_CALL,
        Status::UNKNOWN_OPERATION,
        Status::TOO_LARGE,
        Status::CLOSED,
        Status::BUSY,
        Status::PANIC,
        Status::CANCELLED,
        Status::INTERNAL,
        Status::FAILED,
    ];
    let mut rows: Vec<(String, i128)> = statuses
        .iter()
        .map(|status| (format!("GOONDAN_{}", status.name()), i128::from(status.0)))
        .collect();
    rows.push(("GOONDAN_MAGIC".to_owned(), i128::from(raw::MAGIC)));
    rows.push(("GOONDAN_ABI_MAJOR".to_owned(), i128::from(raw::ABI_MAJOR)));
    rows.push(("GOONDAN_ABI_MINOR".to_owned(), i128::from(raw::ABI_MINOR)));
    rows.push((
        "GOONDAN_PANICS_STOP_HERE".to_owned(),
        i128::from(raw::FLAG_PANICS_STOP_HERE),
    ));
    rows.push(("GOONDAN_NO_CALL".to_owned(), i128::from(raw::NO_CALL)));
    rows
}

fn header_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include")
}

#[test]
fn the_c_header_matches_the_layout_of_the_rust_types() {
    let expected = expected();
    let mut source =
        "#include <stdio.h>\n#include \"goondan_plugin.h\"\nint main(void) {\n".to_owned();
    for (name, _) in &expected {
        writeln!(source, "  printf(\"%lld\\n\", (long long)({name}));")
            .expect("writing to a string works");
    }
    source.push_str("  return 0;\n}\n");

    let folder = tempfile::tempdir().expect("a temporary directory");
    let (file, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&file, source).expect("the C file is written");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I"])
        .arg(header_folder())
        .args([&file, Path::new("-o"), &program])
        .status()
        .expect("`cc` is installed, because Rust links with it");
    assert!(compiled.success());

    let printed = Command::new(&program)
        .output()
        .expect("the C program runs")
        .stdout;
    let printed = String::from_utf8(printed).expect("numbers");
    let found: Vec<(String, i128)> = expected
        .iter()
        .zip(printed.lines())
        .map(|((name, _), line)| (name.clone(), line.parse().expect("a number")))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn table_sizes_match_version_1_0() {
    // A different size is either an appended field, which requires a new minor version, or an
    // incompatible change for every existing library.
    let word = size_of::<usize>();
    assert_eq!(size_of::<Library>(), 6 * word);
    assert_eq!(size_of::<Plugin>(), 24 + word);
    // Version 1.1 added this type instead of a field, so that source code for the table of 1.0
    // still compiles.
    assert_eq!(size_of::<ExtendingLibrary>(), 7 * word);
    if word == 8 {
        assert_eq!(size_of::<Host>(), 64);
    }
}
