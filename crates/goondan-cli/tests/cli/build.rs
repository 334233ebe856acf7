//! `gdn build` and `--build`, with a tool whose build command writes its program.

use serde_json::Value;

use crate::projects::manifest;
use crate::sandbox::Sandbox;

/// No test calls this model.
const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";

/// Creates a project with a tool `greet`, whose program is written by `build`.
fn project(build: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let tool = format!(
        "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: greet}}\nspec:\n  entry: ./tools/greet\n  build: {build}\n"
    );
    let text = manifest(MODEL, "").replace("{ref: Tool/bash}", "{ref: Tool/greet}");
    sandbox.write("p/goondan.yaml", &format!("{text}{tool}"));
    sandbox.write("p/script.yaml", "default: {text: hi}\n");
    sandbox.write(
        "p/tools/greet/tool.yaml",
        "name: greet\ndescription: Greets\nentrypoint: greet.sh\n",
    );
    sandbox
}

const BUILD_COMMAND: &str = r##""printf '#!/bin/sh\\necho hello' > tools/greet/greet.sh && chmod +x tools/greet/greet.sh""##;

#[test]
fn a_missing_program_is_reported_with_the_build_command() {
    let sandbox = project(BUILD_COMMAND);
    let outcome = sandbox.gdn(&["validate", "p"]);
    assert_eq!(outcome.code, 4);
    assert!(outcome.stdout.contains("run `gdn build`"), "{outcome:#?}");
    assert!(
        sandbox
            .gdn(&["build", "p"])
            .ok()
            .starts_with("Built Tool/greet in ")
    );
    sandbox.gdn(&["validate", "p"]).ok();
}

#[test]
fn the_build_option_builds_before_the_call() {
    let sandbox = project(BUILD_COMMAND);
    let call = ["tool", "call", "greet__greet", "--project", "p", "--yes"];
    assert_eq!(sandbox.gdn(&call).code, 4);
    let outcome = sandbox.gdn(&[&call[..], &["--build"]].concat());
    assert!(
        outcome.ok().contains(r#""stdout": "hello\n""#),
        "{outcome:#?}"
    );
    assert!(
        outcome.stderr.contains("Building Tool/greet: printf"),
        "{outcome:#?}"
    );
}

#[test]
fn the_output_of_a_failed_build_is_shown() {
    let sandbox = project("[sh, -c, 'echo no compiler here >&2; exit 7']");
    for arguments in [
        &["build", "p"][..],
        &["run", "p", "--build", "--input", "x"],
    ] {
        let outcome = sandbox.gdn(arguments);
        assert_eq!(
            (outcome.code, outcome.stdout.as_str()),
            (1, ""),
            "{outcome:#?}"
        );
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!("failed build", outcome.stderr));
    }
    let outcome = sandbox.gdn(&["build", "p", "--json"]);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        (&report[0]["status"], &report[0]["output"]),
        (&"failed".into(), &"no compiler here\n".into())
    );
}

#[test]
fn builds_that_cannot_run_are_explained() {
    let cases: [(&str, &str, &[&str]); 4] = [
        ("build nothing", "'true'", &["build", "q"]),
        (
            "build of an unknown tool",
            "'true'",
            &["build", "p", "--tool", "gret"],
        ),
        ("build that makes nothing", "'true'", &["build", "p"]),
        (
            "build without its program",
            "[no-such-compiler]",
            &["build", "p"],
        ),
    ];
    for (name, build, arguments) in cases {
        let sandbox = project(build);
        sandbox.write("q/goondan.yaml", &manifest(MODEL, ""));
        let outcome = sandbox.gdn(arguments);
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(name, outcome.report()));
    }
}

#[test]
fn project_errors_are_reported_before_a_build() {
    let sandbox = project("echo built");
    sandbox.write(
        "p/agents.yaml",
        "apiVersion: goondan.ai/v1\nkind: Modle\nmetadata: {name: m2}\nspec: {}\n",
    );
    let outcome = sandbox.gdn(&["build", "p"]);
    assert_eq!(outcome.code, 4);
    assert!(
        outcome.stderr.contains("Modle") && !outcome.stderr.contains("ENTRY_NOT_FOUND"),
        "{outcome:#?}"
    );
    assert!(!outcome.stderr.contains("Building"), "{outcome:#?}");
}

/// A build runs without a sandbox and without an approval, so a file tool must not change its code.
#[test]
fn file_tools_need_an_approval_to_write_code_of_a_build() {
    let explain = |build: &str, path: &str| {
        let sandbox = project(build);
        let text = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
        let text = text.replace("{ref: Tool/greet}", "{ref: Tool/greet}, {ref: Tool/fs}");
        let agent = "  workdir: project\n  permissions: {default: allow}\n---";
        sandbox.write("p/goondan.yaml", &text.replacen("  \n---", agent, 1));
        sandbox.write("p/tools/greet/greet.sh", "#!/bin/sh\n");
        sandbox.write("p/scripts/build.sh", "cp src/x tools/greet\n");
        sandbox.write("p/native/Makefile", "all:\n\ttrue\n");
        let arguments = serde_json::json!({"path": path, "content": "x"}).to_string();
        let explain = ["policy", "explain", "--project", "p", "--agent", "a"];
        let call = ["--tool", "fs__write", "--args", &arguments];
        let outcome = sandbox.gdn(&[&explain[..], &call[..]].concat());
        let outcome = outcome.ok().to_owned();
        outcome.starts_with("fs__write: ask\n") && outcome.contains("it is a program of a tool")
    };
    for (build, paths) in [
        ("make", ["Makefile", "GNUmakefile", "src/new.c"]),
        (
            "make -C native",
            ["native/Makefile", "native/x.c", "native/GNUmakefile"],
        ),
        (
            "sh scripts/build.sh",
            ["scripts/build.sh", "scripts/lib.sh", "src/x.js"],
        ),
        (
            "[cargo, build, -p, x]",
            ["crates/x/build.rs", "rust-toolchain.toml", "Cargo.toml"],
        ),
        (
            "{command: ls, sources: ['data/*.txt']}",
            ["data/a.txt", "src/x.js", "package.json"],
        ),
    ] {
        for path in paths {
            assert!(explain(build, path), "{build} {path}");
        }
        assert!(!explain(build, "docs/notes.md"), "{build}");
    }
    let build = "{command: cargo build, cwd: native}";
    assert!(explain(build, "Cargo.toml"));
    assert!(!explain(build, "src/x.js"));
}
