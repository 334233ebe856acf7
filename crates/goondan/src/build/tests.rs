//! Tests of tool builds with short shell commands.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use tempfile::TempDir;

use super::*;

/// Creates a project with these files, whose only tool `x` has the build `build`.
fn project(build: &str, files: &[&str]) -> (TempDir, ToolBuilds) {
    let folder = tempfile::tempdir().unwrap();
    let tool = format!(
        "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: x}}\nspec:\n  entry: ./tools/x/target/release/x\n  build: {build}\n"
    );
    fs::write(folder.path().join("goondan.yaml"), tool).unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let builds = ToolBuilds::of_project(&crate::load(folder.path()));
    assert_eq!(builds.tools().len(), 1);
    (folder, builds)
}

async fn run(builds: &ToolBuilds, cancellation: &CancellationToken) -> (BuildOutcome, Vec<String>) {
    let mut lines = Vec::new();
    let tool = builds.tools().next().unwrap();
    let outcome = builds
        .run(tool, cancellation, &mut |line| lines.push(line.to_owned()))
        .await;
    (outcome, lines)
}

#[cfg(unix)]
#[tokio::test]
async fn a_build_runs_in_its_directory_and_reports_its_output() {
    let (folder, builds) = project(
        "{command: 'pwd; echo made > made', cwd: tools/x}",
        &["tools/x/Makefile"],
    );
    let (outcome, lines) = run(&builds, &CancellationToken::new()).await;
    assert!(outcome.is_built(), "{outcome:?}");
    let directory = folder.path().join("tools/x");
    assert_eq!(lines, [directory.canonicalize().unwrap().to_str().unwrap()]);
    assert_eq!(
        fs::read_to_string(directory.join("made")).unwrap(),
        "made\n"
    );
    let (folder, builds) = project("[touch, 'with space']", &[]);
    assert!(run(&builds, &CancellationToken::new()).await.0.is_built());
    assert!(folder.path().join("with space").is_file());
}

#[cfg(unix)]
#[tokio::test]
async fn a_failed_build_reports_the_cause() {
    let cancellation = CancellationToken::new();
    let (_folder, builds) = project("echo wrong >&2; exit 3", &[]);
    let (outcome, _) = run(&builds, &cancellation).await;
    assert_eq!(
        (outcome.end, outcome.output.as_str()),
        (BuildEnd::Failed(Some(3)), "wrong\n")
    );
    let (_folder, builds) = project("[no-such-program-anywhere]", &[]);
    let (outcome, _) = run(&builds, &cancellation).await;
    assert_eq!(
        outcome.end,
        BuildEnd::NotStarted("there is no program `no-such-program-anywhere`".to_owned())
    );
    let (_folder, builds) = project("{command: sleep 600, timeoutMs: 50}", &[]);
    let (outcome, _) = run(&builds, &cancellation).await;
    assert_eq!(outcome.end, BuildEnd::TimedOut(Duration::from_millis(50)));
}

#[cfg(unix)]
#[tokio::test]
async fn a_cancelled_build_kills_its_child_processes() {
    let (folder, builds) = project("sleep 600 & echo $!; wait", &[]);
    let cancellation = CancellationToken::new();
    let mut pid = String::new();
    let tool = builds.tools().next().unwrap();
    let mut on_line = |line: &str| {
        pid = line.to_owned();
        cancellation.cancel();
    };
    let outcome = builds.run(tool, &cancellation, &mut on_line).await;
    assert_eq!(outcome.end, BuildEnd::Cancelled);
    let is_alive = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        // Init reaps an orphan later, so a zombie (`State: Z`) also counts as dead.
        !status.is_empty() && !status.contains("State:\tZ")
    };
    // The kill may take effect with a delay.
    let process_exit = async {
        while is_alive() {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(Duration::from_secs(10), process_exit)
        .await
        .expect("the child process is still running");
    drop(folder);
}

#[cfg(unix)]
#[tokio::test]
async fn long_build_output_keeps_its_beginning_and_end() {
    let (_folder, builds) = project("seq 1 100000", &[]);
    let (outcome, lines) = run(&builds, &CancellationToken::new()).await;
    assert_eq!(lines.len(), 100_000);
    assert!(outcome.output.starts_with("1\n2\n") && outcome.output.ends_with("\n99999\n100000\n"));
    assert!(outcome.output.contains("lines left out"));
    assert!(
        outcome.output.len() < 128 * 1024,
        "{}",
        outcome.output.len()
    );
}

#[test]
fn the_default_sources_are_the_crate_of_the_entry() {
    let (folder, builds) = project("cargo build", &["tools/x/Cargo.toml", "tools/x/src/lib.rs"]);
    let affected = |path: &str| !builds.affected_by([path]).is_empty();
    for source in [
        "tools/x/src/lib.rs",
        "tools/x/Cargo.toml",
        "./tools/x/build.rs",
        "tools/y/../x/src/more/new.rs",
    ] {
        assert!(affected(source), "{source}");
    }
    for other in [
        "goondan.yaml",
        "tools/y/src/lib.rs",
        "tools/x/target/release/libx.so",
        "tools/x/target/release/x",
        "tools/x/Cargo.lock",
        "tools/x/x.case.yaml",
        "tools/x/.git/index",
        "tools/x/src/lib.rs~",
    ] {
        assert!(!affected(other), "{other}");
    }
    let root = folder.path();
    assert!(
        !builds
            .affected_by([root.join("tools/x/src/lib.rs")])
            .is_empty(),
        "absolute paths"
    );
    assert_eq!(builds.source_folders(), [root.join("tools/x")]);
}

#[test]
fn configured_sources_can_be_outside_the_project() {
    let (folder, builds) = project(
        "{command: make, cwd: tools, sources: ['*.c', ../../shared/**/*.h]}",
        &["tools/x.c"],
    );
    let affected = |path: &str| !builds.affected_by([path]).is_empty();
    assert!(affected("tools/x.c") && affected("../shared/deep/x.h"));
    assert!(!affected("tools/deep/x.c") && !affected("tools/Makefile") && !affected("shared/x.h"));
    let shared = folder.path().parent().unwrap();
    assert_eq!(
        builds.source_folders(),
        [shared.to_owned(), folder.path().join("tools")]
    );
}
