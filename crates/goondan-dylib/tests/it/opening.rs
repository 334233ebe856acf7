//! Tests of errors when a library is opened.

use std::time::Duration;

use goondan_core::ports::tool::EntryOpenError;
use goondan_dylib::LibraryLimits;
use goondan_spec::kinds::ExportSpec;

use crate::support::{Bench, compile_c, count, impatient, plugin, tool};

/// Checks the message and the suggestion of an error.
fn says(result: Result<impl Sized, EntryOpenError>, message: &str, suggestion: &str) {
    let error = result.err().expect("it is refused");
    assert!(error.to_string().contains(message), "{error}");
    let advice = error.suggestion.unwrap_or_default();
    assert!(advice.contains(suggestion), "{advice}");
}

#[tokio::test]
async fn a_missing_file_names_what_was_looked_for() {
    let bench = Bench::new();
    says(
        bench.open("tools/text-utils").await,
        "there is no library `tools/text-utils`",
        "text_utils",
    );
}

#[tokio::test]
async fn the_name_may_be_written_without_prefix_and_suffix() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("tools")).expect("made");
    std::fs::copy(plugin("text_utils"), bench.path("tools/libtext_utils.so")).expect("copied");
    for entry in [
        "./tools/text-utils",
        "tools/text_utils",
        "tools/libtext_utils.so",
    ] {
        assert!(bench.open(entry).await.is_ok(), "{entry}");
    }
}

#[tokio::test]
async fn files_that_are_no_libraries_are_told_apart() {
    let bench = Bench::new();
    let whole = std::fs::read(plugin("counter")).expect("read");
    let script = b"#!/bin/sh\necho hello from a script\n";
    let cases: [(&[u8], &str, &str); 3] = [
        (b"", "libsubject.so is empty", "cdylib"),
        (script, "is not a dynamic library", "cdylib"),
        (
            &whole[..whole.len() / 2],
            "damaged or incompletely written",
            "build it again",
        ),
    ];
    for (content, message, suggestion) in cases {
        std::fs::write(bench.path("libsubject.so"), content).expect("written");
        says(bench.open("libsubject.so").await, message, suggestion);
    }
    assert_eq!(count(&bench.libraries.counters().retired), 0);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_library_for_another_machine_is_told() {
    let bench = Bench::new();
    let mut foreign = std::fs::read(plugin("counter")).expect("read");
    // Change the machine in the ELF header to AArch64, or to x86-64 on AArch64.
    foreign[18] = if cfg!(target_arch = "aarch64") {
        62
    } else {
        183
    };
    std::fs::write(bench.path("libsubject.so"), foreign).expect("written");
    says(
        bench.open("libsubject.so").await,
        "is built for another machine",
        "cargo build --target",
    );
}

#[tokio::test]
async fn a_library_of_something_else_is_not_loaded() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path("c")).expect("made");
    let source = bench.path("c/other.c");
    std::fs::write(
        &source,
        "__attribute__((constructor)) static void run(void) { __builtin_trap(); }\n",
    )
    .expect("written");
    let target = bench.path("libother.so");
    compile_c(source.to_str().expect("UTF-8"), &[], &target);
    says(
        bench.open("other").await,
        "does not export `goondan_plugin`",
        "export_tools!",
    );
}

#[tokio::test]
async fn headers_that_do_not_fit_are_refused_before_anything_is_called() {
    // `open` would crash, which shows that it is not called.
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
        says(
            Bench::new().c_hostile(&[define, "CRASH"]).await,
            message,
            suggestion,
        );
    }
    says(
        Bench::new().c_hostile(&["OPEN=0"]).await,
        "no function `open`",
        "current header",
    );
}

#[tokio::test]
async fn libraries_that_do_not_open_are_told() {
    let bench = Bench::new();
    says(
        bench.c_hostile(&["OPENED=-9"]).await,
        "refused to open: INTERNAL",
        "documentation",
    );
    says(
        bench.c_hostile(&["START=0"]).await,
        "no function `start`",
        "goondan_library",
    );
    says(
        bench.c_hostile(&["MANIFEST=\"{\""]).await,
        "is not valid JSON",
        "bug in the library",
    );
}

#[tokio::test]
async fn a_library_that_hangs_is_given_up() {
    let bench = Bench::with_limits(LibraryLimits {
        open_timeout: Duration::from_millis(200),
        ..impatient()
    });
    says(
        bench.c_hostile(&["HANG"]).await,
        "did not finish opening",
        "return promptly",
    );
}

#[tokio::test]
async fn manifests_that_make_no_sense_are_told() {
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
        says(
            Bench::new()
                .c_hostile(&[&format!("MANIFEST={manifest}")])
                .await,
            message,
            "bug in the library",
        );
    }
}

#[tokio::test]
async fn a_missing_export_is_told_with_those_that_are_there() {
    let bench = Bench::new();
    std::fs::copy(plugin("counter"), bench.path("libsubject.so")).expect("copied");
    let mut tool = tool("subject");
    tool.spec.exports = vec![
        ExportSpec::named("increment"),
        ExportSpec::named("decrement"),
    ]
    .into();
    says(
        bench.open_tool(&tool).await,
        "has no export `decrement`",
        "its exports are: current, increment",
    );
}

#[tokio::test]
async fn a_missing_symbol_is_told_when_it_is_loaded_and_not_when_it_is_called() {
    let bench = Bench::new();
    let source = bench.path("unbound.c");
    let text = "#include \"goondan_plugin.h\"\nextern void nowhere(void);\n\
                static goondan_status open_it(const goondan_host *h, goondan_library *o, size_t s)\n\
                { (void)h, (void)o, (void)s; nowhere(); return 0; }\n\
                const goondan_plugin_entry goondan_plugin = {GOONDAN_MAGIC, 1, 0, sizeof(goondan_plugin_entry),\n\
                sizeof(goondan_library), 1, open_it};\n";
    std::fs::write(&source, text).expect("written");
    compile_c(
        source.to_str().expect("UTF-8"),
        &[],
        &bench.path("libunbound.so"),
    );
    says(
        bench.open("unbound").await,
        "the system cannot load libunbound.so",
        "link missing symbols",
    );
    says(bench.open("unbound").await, "nowhere", "rebuild");
}

#[test]
fn a_library_that_would_abort_on_a_panic_does_not_compile() {
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("a library must be built with panic = \"unwind\""),
        "{said}"
    );
}
