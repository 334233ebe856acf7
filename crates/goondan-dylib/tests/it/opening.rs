//! Tests of errors when a library is opened.

use std::time::Duration;

use goondan_core::ports::tool::EntryOpenError;
use goondan_dylib::LibraryLimits;
use goondan_spec::kinds::ExportSpec;

use crate::support::{LibraryFixture, compile_c, count, plugin, short_limits, tool};

/// Checks the message and the suggestion of an open error.
fn assert_open_error(result: Result<impl Sized, EntryOpenError>, message: &str, suggestion: &str) {
    let error = result.err().expect("opening fails");
    assert!(error.to_string().contains(message), "{error}");
    let actual_suggestion = error.suggestion.unwrap_or_default();
    assert!(
        actual_suggestion.contains(suggestion),
        "{actual_suggestion}"
    );
}

#[tokio::test]
async fn the_error_for_a_missing_file_names_the_searched_library() {
    let fixture = LibraryFixture::new();
    assert_open_error(
        fixture.open("tools/text-utils").await,
        "there is no library `tools/text-utils`",
        "text_utils",
    );
}

#[tokio::test]
async fn an_entry_can_omit_the_prefix_and_suffix_of_the_file_name() {
    let fixture = LibraryFixture::new();
    std::fs::create_dir(fixture.path("tools")).expect("the directory is created");
    std::fs::copy(plugin("text_utils"), fixture.path("tools/libtext_utils.so")).expect("copied");
    for entry in [
        "./tools/text-utils",
        "tools/text_utils",
        "tools/libtext_utils.so",
    ] {
        assert!(fixture.open(entry).await.is_ok(), "{entry}");
    }
}

#[tokio::test]
async fn open_errors_distinguish_kinds_of_invalid_files() {
    let fixture = LibraryFixture::new();
    let content = std::fs::read(plugin("counter")).expect("read");
    let script = b"#!/bin/sh\necho hello from a script\n";
    let cases: [(&[u8], &str, &str); 3] = [
        (b"", "libsubject.so is empty", "cdylib"),
        (script, "is not a dynamic library", "cdylib"),
        (
            &content[..content.len() / 2],
            "damaged or incompletely written",
            "build it again",
        ),
    ];
    for (content, message, suggestion) in cases {
        std::fs::write(fixture.path("libsubject.so"), content).expect("written");
        assert_open_error(fixture.open("libsubject.so").await, message, suggestion);
    }
    assert_eq!(count(&fixture.libraries.counters().retired), 0);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_library_for_another_architecture_is_reported() {
    let fixture = LibraryFixture::new();
    let mut library = std::fs::read(plugin("counter")).expect("read");
    // Change the machine in the ELF header to AArch64, or to x86-64 on AArch64.
    library[18] = if cfg!(target_arch = "aarch64") {
        62
    } else {
        183
    };
    std::fs::write(fixture.path("libsubject.so"), library).expect("written");
    assert_open_error(
        fixture.open("libsubject.so").await,
        "is built for another machine",
        "cargo build --target",
    );
}

#[tokio::test]
async fn a_library_without_the_entry_symbol_is_not_loaded() {
    let fixture = LibraryFixture::new();
    std::fs::create_dir_all(fixture.path("c")).expect("the directory is created");
    let source = fixture.path("c/other.c");
    std::fs::write(
        &source,
        "__attribute__((constructor)) static void run(void) { __builtin_trap(); }\n",
    )
    .expect("written");
    let target = fixture.path("libother.so");
    compile_c(source.to_str().expect("UTF-8"), &[], &target);
    assert_open_error(
        fixture.open("other").await,
        "does not export `goondan_plugin`",
        "export_tools!",
    );
}

#[tokio::test]
async fn incompatible_headers_are_rejected_before_any_function_is_called() {
    // `open` would crash this process, so the test also shows that `open` is not called.
    let cases = [
        ("MAGIC=5", "a wrong magic number", "goondan_plugin.h"),
        (
            "MAJOR=2",
            "uses version 2 of the tool ABI, but this program uses version 1",
            "rebuild libsubject.so with goondan-abi 1.x",
        ),
        (
            "MAJOR=0",
            "uses version 0",
            "rebuild libsubject.so with goondan-abi 1.x",
        ),
        (
            "FLAGS=0",
            "a panic in it would end this program",
            "panic = \"abort\"",
        ),
    ];
    for (define, message, suggestion) in cases {
        assert_open_error(
            LibraryFixture::new().c_hostile(&[define, "CRASH"]).await,
            message,
            suggestion,
        );
    }
    assert_open_error(
        LibraryFixture::new().c_hostile(&["OPEN=0"]).await,
        "no function `open`",
        "current header",
    );
}

#[tokio::test]
async fn failures_while_opening_a_library_are_reported() {
    let fixture = LibraryFixture::new();
    assert_open_error(
        fixture.c_hostile(&["OPENED=-9"]).await,
        "refused to open: INTERNAL",
        "documentation",
    );
    assert_open_error(
        fixture.c_hostile(&["START=0"]).await,
        "no function `start`",
        "goondan_library",
    );
    assert_open_error(
        fixture.c_hostile(&["MANIFEST=\"{\""]).await,
        "is not valid JSON",
        "bug in the library",
    );
}

#[tokio::test]
async fn a_library_that_hangs_while_opening_times_out() {
    let fixture = LibraryFixture::with_limits(LibraryLimits {
        open_timeout: Duration::from_millis(200),
        ..short_limits()
    });
    assert_open_error(
        fixture.c_hostile(&["HANG"]).await,
        "did not finish opening",
        "return promptly",
    );
}

#[tokio::test]
async fn invalid_manifests_are_reported() {
    let cases = [
        (
            r#""{\"name\": \"x\", \"exports\": []}""#,
            "it exports nothing",
        ),
        (
            r#""{\"name\": \"x\", \"exports\": [{\"name\": \"a__b\"}]}""#,
            "`a__b` is not a valid export name",
        ),
        (
            r#""{\"name\": \"x\", \"exports\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}""#,
            "two of its exports have the same name",
        ),
        (
            r#""{\"name\": \"x\", \"exports\": [{\"name\": \"a\", \"parameters\": {\"type\": \"string\"}}]}""#,
            "not a JSON Schema of type object",
        ),
    ];
    for (manifest, message) in cases {
        assert_open_error(
            LibraryFixture::new()
                .c_hostile(&[&format!("MANIFEST={manifest}")])
                .await,
            message,
            "bug in the library",
        );
    }
}

#[tokio::test]
async fn a_missing_export_is_reported_with_the_existing_exports() {
    let fixture = LibraryFixture::new();
    std::fs::copy(plugin("counter"), fixture.path("libsubject.so")).expect("copied");
    let mut tool = tool("subject");
    tool.spec.exports = vec![
        ExportSpec::named("increment"),
        ExportSpec::named("decrement"),
    ]
    .into();
    assert_open_error(
        fixture.open_tool(&tool).await,
        "has no export `decrement`",
        "its exports are: current, increment",
    );
}

#[tokio::test]
async fn a_missing_symbol_is_reported_when_the_library_is_loaded() {
    let fixture = LibraryFixture::new();
    let source = fixture.path("unbound.c");
    let text = "#include \"goondan_plugin.h\"\nextern void nowhere(void);\n\
                static goondan_status open_it(const goondan_host *h, goondan_library *o, size_t s)\n\
                { (void)h, (void)o, (void)s; nowhere(); return 0; }\n\
                const goondan_plugin_entry goondan_plugin = {GOONDAN_MAGIC, 1, 0, sizeof(goondan_plugin_entry),\n\
                sizeof(goondan_library), 1, open_it};\n";
    std::fs::write(&source, text).expect("written");
    compile_c(
        source.to_str().expect("UTF-8"),
        &[],
        &fixture.path("libunbound.so"),
    );
    assert_open_error(
        fixture.open("unbound").await,
        "the system cannot load libunbound.so",
        "link missing symbols",
    );
    assert_open_error(fixture.open("unbound").await, "nowhere", "rebuild");
}

#[test]
fn a_library_with_panic_abort_does_not_compile() {
    let output = crate::support::nested_cargo::nested_cargo()
        .args([
            "rustc",
            "--quiet",
            "-p",
            "counter",
            "--lib",
            "--",
            "-C",
            "panic=abort",
        ])
        .output()
        .expect("cargo runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        stderr.contains("a library must be built with panic = \"unwind\""),
        "{stderr}"
    );
}
