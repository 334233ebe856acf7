//! Attacks through a model's tool arguments, one class per test. Each attack is one input to one
//! export. It must end in an error, and nothing outside may be read or changed.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::custom_tools::project_file;

/// Contents that must not be readable.
pub(crate) const SECRET: &str = "what nobody may read";

/// Creates a working directory with links of all kinds next to a directory `out`.
fn tree() -> Bench {
    let bench = Bench::new();
    project_file(&bench, "out/secret.md", SECRET);
    project_file(&bench, "workshop/secret.md", SECRET);
    bench.write("sub/deep/file.md", "mine");
    bench.write("memory/note.md", "mine");
    let out = bench.dir.path().join("out");
    for (target, link) in [
        ("../out", "leave"),
        ("../out/secret.md", "leaf.md"),
        ("leave", "chain"),
        ("chain", "chain2"),
        ("sub/../../out", "winding"),
        ("../out/new.md", "dangling.md"),
        ("sub/deep", "deep"),
        ("/", "root"),
        ("/proc/self/root", "proc"),
        ("/proc/self/cwd/..", "cwd"),
    ] {
        symlink(target, bench.work().join(link)).unwrap();
    }
    symlink(&out, bench.work().join("absolute")).unwrap();
    symlink("../../out", bench.work().join("memory/leave")).unwrap();
    bench
}

/// Paths that lead to `out`, or to no place in the working directory.
fn escapes(bench: &Bench) -> Vec<String> {
    let dir = bench.dir.path().canonicalize().unwrap();
    let (dir, work) = (
        dir.display().to_string(),
        bench.work().display().to_string(),
    );
    let mut paths: Vec<String> = [
        "../out/secret.md",
        "..//out/./secret.md",
        "./../out/secret.md",
        "sub/../../out/secret.md",
        "sub/deep/../../../out/secret.md",
        "nothing/../../out/secret.md",
        "leave/secret.md",
        "leaf.md",
        "chain/secret.md",
        "chain2/secret.md",
        "winding/secret.md",
        "absolute/secret.md",
        "deep/../../../out/secret.md",
        "leave/../out/secret.md",
        "chain2/../work/../out/secret.md",
        "../workshop/secret.md",
        "root/etc/passwd",
        "proc/etc/passwd",
        "cwd/etc",
        "/etc/passwd",
        "//etc/passwd",
        "/./etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/environ",
        "/proc/self/cwd/../out",
        "/dev/stdin",
        "/dev/fd/0",
        "secret.md\0.txt",
        "\0",
        "../out/secret.md\0",
        ".goondan/approvals.yaml",
        ".GOONDAN/approvals.yaml",
        "sub/../.Goondan/approvals.yaml",
        "../.goondan/approvals.yaml",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.extend([
        format!("{dir}/out/secret.md"),
        format!("{work}/../out/secret.md"),
        format!("{work}shop/secret.md"),
        format!("/proc/self/root{dir}/out/secret.md"),
        format!("{}out/secret.md", "sub/../".repeat(500) + "../"),
        format!("{}out/secret.md", "./".repeat(1_000) + "../"),
    ]);
    paths
}

/// Spellings with a special meaning in other programs. Here they are plain or invalid names, and
/// always stay inside.
fn look_alikes() -> Vec<String> {
    let mut paths: Vec<String> = [
        "~/.ssh/id_rsa",
        "~root/x",
        "$HOME/x",
        "${HOME}/x",
        "%2e%2e/out/secret.md",
        "..%2fout/secret.md",
        "..\\out\\secret.md",
        "C:\\Windows\\x",
        "\\\\server\\share",
        "file:///etc/passwd",
        "․․/out/secret.md",
        "‥/out/secret.md",
        "..／out／secret.md",
        "..∕out∕secret.md",
        "．．/out/secret.md",
        "../\u{200b}out/secret.md",
        ".. /out/secret.md",
        "... /secret.md",
        "..../out/secret.md",
        "-rf",
        "CON",
        "x:stream",
        "out.",
        "LEAVE/secret.md",
        "le\u{301}ave/secret.md",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.push("x".repeat(5_000));
    paths.push("x/".repeat(5_000));
    paths
}

/// Returns all files in the forbidden directories.
fn outside(bench: &Bench) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in ["out", "workshop"] {
        for entry in std::fs::read_dir(bench.dir.path().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            found.push((
                path.display().to_string(),
                std::fs::read_to_string(&path).unwrap_or_default(),
            ));
        }
    }
    found
}

fn file_calls(path: &str) -> Vec<(&'static str, Value)> {
    let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n");
    vec![
        ("fs__read", json!({"path": path})),
        ("fs__write", json!({"path": path, "content": "x"})),
        (
            "fs__edit",
            json!({"path": path, "old_text": "what", "new_text": "x"}),
        ),
        ("fs__ls", json!({"path": path})),
        ("fs__grep", json!({"path": path, "pattern": "."})),
        ("fs__glob", json!({"path": path, "pattern": "**"})),
        ("fs__apply_patch", json!({"patch": patch})),
        ("file-system__read", json!({"path": path})),
        ("file-system__write", json!({"path": path, "content": "x"})),
        (
            "file-system__write",
            json!({"path": path, "content": "x", "append": true}),
        ),
        ("file-system__list", json!({"path": path})),
        ("file-system__mkdir", json!({"path": path})),
        ("memory__get", json!({"path": path})),
        ("bash__script", json!({"path": path})),
        ("agents__spawn", json!({"target": "worker", "cwd": path})),
    ]
}

#[tokio::test]
async fn paths_that_leave_the_working_directory() {
    let bench = tree();
    let before = outside(&bench);
    let (mut count, mut through) = (0, Vec::new());
    for path in escapes(&bench) {
        for (tool, args) in file_calls(&path) {
            count += 1;
            if let Ok(done) = bench.call(tool, args).await {
                through.push(format!("{tool} {path:.80}: {}", done.output));
            }
        }
    }
    assert!(through.is_empty(), "{through:#?}");
    assert_eq!(outside(&bench), before);
    println!(
        "attacks: paths that leave: {} in {count} calls, all refused",
        escapes(&bench).len()
    );
}

#[tokio::test]
async fn paths_that_look_like_others() {
    let bench = tree();
    let before = outside(&bench);
    let mut count = 0;
    for path in look_alikes() {
        for (tool, args) in file_calls(&path) {
            count += 1;
            let told = match bench.call(tool, args).await {
                Ok(done) => done.output.to_string(),
                Err(error) => error.message,
            };
            assert!(
                !told.contains(SECRET) && !told.contains("root:x:"),
                "{tool} {path:.80}: {told}"
            );
        }
    }
    assert_eq!(outside(&bench), before);
    println!(
        "attacks: paths that look like others: {} in {count} calls, all contained",
        look_alikes().len()
    );
}

/// Names that resemble paths.
fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "..",
        ".",
        "../evil",
        "../../evil",
        "../../../../evil",
        "/evil",
        "/etc/evil",
        "a/b",
        "a/../../evil",
        "./evil",
        "a\\..\\evil",
        "..\\evil",
        "C:evil",
        "~/evil",
        "evil\0",
        "a\0/../evil",
        ".hidden",
        "evil/",
        "/",
        "..／evil",
        "．．",
        "ev\nil",
        "ev\u{202e}il",
        "con:",
        "a..b",
        "$(touch evil)",
        "`touch evil`",
        "evil;touch evil",
        "-rf",
        " ",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("x".repeat(300));
    names
}

fn files(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path().display().to_string()),
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn names_that_want_to_be_places() {
    let bench = Bench::new();
    project_file(
        &bench,
        "a/tool.yaml",
        "name: a\ndescription: d\nentrypoint: a\n",
    );
    let before = files(bench.dir.path());
    let mut count = 0;
    let mut through = Vec::new();
    for name in names() {
        for (tool, args) in [
            ("custom-tools__run", json!({"tool_name": name})),
            ("custom-tools__delete", json!({"tool_name": name})),
            (
                "custom-tools__create",
                json!({"name": name, "description": "d"}),
            ),
            (
                "squad__skill",
                json!({"action": "write", "skillName": name, "content": "x"}),
            ),
            ("squad__skill", json!({"action": "read", "skillName": name})),
            ("squad__memory", json!({"agentName": name, "learning": "x"})),
            (
                "squad__decide",
                json!({"agentName": name, "title": "x", "body": "x"}),
            ),
            ("squad__route", json!({"targetAgent": name, "task": "x"})),
            ("memory__get", json!({"path": name})),
            ("agents__request", json!({"target": name, "input": "x"})),
            ("agents__send", json!({"target": name, "input": "x"})),
            ("agents__spawn", json!({"target": name})),
            (
                "task__run",
                json!({"agent": name, "description": "d", "prompt": "p"}),
            ),
            ("sessions__history", json!({"session_id": name})),
            (
                "sessions__send",
                json!({"session_id": name, "content": "x"}),
            ),
            (
                "runtime__process",
                json!({"action": "signal", "process_id": name, "signal": "term"}),
            ),
        ] {
            count += 1;
            if let Ok(done) = bench.call(tool, args).await
                && done.output["type"] != "failure"
                && done.output["resultType"] != "failure"
            {
                through.push(format!("{tool} {name:?}: {}", done.output));
            }
        }
    }
    assert!(through.is_empty(), "{through:#?}");
    assert_eq!(files(bench.dir.path()), before);
    println!(
        "attacks: names that want to be places: {} in {count} calls, all refused",
        names().len()
    );
}

/// Commands that read the variables of the parent process. Cargo sets some, which represent keys
/// here.
const LEAKS: &[&str] = &[
    "env",
    "printenv",
    "printenv CARGO_MANIFEST_DIR",
    "export -p",
    "set",
    "echo $CARGO_MANIFEST_DIR",
    "echo ${CARGO_MANIFEST_DIR-}",
    "cat /proc/self/environ",
    "tr '\\0' '\\n' < /proc/$$/environ",
    "sh -c env",
    "sh -lc env",
    "sh -c 'sh -c env'",
    "env -u PATH /usr/bin/env",
    "nohup env",
    "env & wait",
    "(env)",
    "setsid env",
    "awk 'BEGIN{for(k in ENVIRON) print k \"=\" ENVIRON[k]}'",
    "bash -c 'compgen -e; declare -x'",
    "exec env",
    "xargs env < /dev/null",
    "find . -maxdepth 0 -exec env ;",
];

#[tokio::test]
async fn variables_of_the_parent() {
    let kept = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let bench = Bench::new();
    let mut count = 0;
    for (number, command) in LEAKS.iter().enumerate() {
        let name = format!("leak{number}");
        project_file(
            &bench,
            &format!("tools/{name}/tool.yaml"),
            &format!("name: {name}\ndescription: d\nentrypoint: run\n"),
        );
        project_file(
            &bench,
            &format!("tools/{name}/run"),
            &format!("#!/bin/sh\n{command}\n"),
        );
        bench.write("script.sh", format!("#!/bin/sh\n{command}\n"));
        for (tool, args) in [
            ("bash__exec", json!({"command": command})),
            ("bash__script", json!({"path": "script.sh"})),
            ("runtime__exec", json!({"command": command})),
            ("custom-tools__run", json!({"tool_name": name})),
        ] {
            count += 1;
            let output = bench
                .call(tool, args)
                .await
                .map(|done| done.output.to_string())
                .unwrap_or_default();
            assert!(
                !output.contains(&kept) && !output.contains("CARGO_PKG"),
                "{tool} {command}: {output}"
            );
        }
    }
    println!(
        "attacks: variables of the parent: {} in {count} calls, all find nothing",
        LEAKS.len()
    );
}

/// Swaps a file and a directory for links that lead outside until it is dropped.
struct LinkSwapper {
    is_over: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl LinkSwapper {
    /// Swaps `x` for a link to `outside/secret`, and `d` for one to `outside`.
    fn start(work: std::path::PathBuf, outside: std::path::PathBuf) -> LinkSwapper {
        let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let flag = std::sync::Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let at = |name: &str| work.join(name);
            while !flag.load(std::sync::atomic::Ordering::Relaxed) {
                std::fs::write(at("draft"), "inside").unwrap();
                std::fs::rename(at("draft"), at("x")).unwrap();
                symlink(outside.join("secret"), at("draft")).unwrap();
                std::fs::rename(at("draft"), at("x")).unwrap();
                std::fs::rename(at("d"), at("aside")).unwrap();
                symlink(&outside, at("d")).unwrap();
                std::thread::yield_now();
                std::fs::remove_file(at("d")).unwrap();
                std::fs::rename(at("aside"), at("d")).unwrap();
            }
        });
        LinkSwapper {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for LinkSwapper {
    fn drop(&mut self) {
        self.is_over
            .store(true, std::sync::atomic::Ordering::Relaxed);
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))), "the swapping thread failed");
    }
}

/// An agent replaces a directory of the configuration with a link.
#[tokio::test]
async fn no_tool_follows_a_link_in_the_place_of_a_configured_directory() {
    let mut bench = Bench::new().config(json!({"roots": ["lib"]}));
    let project = bench.dir.path().canonicalize().unwrap();
    project_file(&bench, "lib/mine", "mine");
    project_file(&bench, "victim/secret", SECRET);
    let path = project.join("lib/mine");
    bench.ok("fs__read", json!({"path": path})).await;
    let replace_by_link = |name: &str| {
        std::fs::rename(project.join(name), project.join(format!("{name}-old"))).unwrap();
        symlink("victim", project.join(name)).unwrap();
    };
    replace_by_link("lib");
    for name in ["lib/secret", "victim/secret"] {
        let path = json!({"path": project.join(name)});
        for tool in ["fs__read", "file-system__read", "fs__ls"] {
            let (code, message) = bench.err(tool, path.clone()).await;
            assert_eq!(code, "E_TOOL_PATH_ESCAPE", "{tool} {name}: {message}");
        }
        let write = json!({"path": project.join(name), "content": "x"});
        let (code, _) = bench.err("fs__write", write).await;
        assert_eq!(code, "E_TOOL_PATH_ESCAPE", "{name}");
    }
    for shelf in ["shelf", "tools"] {
        bench = bench.config(json!({"dir": "shelf"}));
        let yaml = "name: victim\ndescription: d\nentrypoint: run.sh\n";
        project_file(&bench, &format!("{shelf}/mine/readme"), "x");
        project_file(&bench, "victim/victim/tool.yaml", yaml);
        project_file(&bench, "victim/victim/run.sh", "#!/bin/sh\n");
        replace_by_link(shelf);
        let create = json!({"name": "new", "description": "d", "scope": "project"});
        let named = json!({"tool_name": "victim"});
        for (tool, args) in [
            ("custom-tools__list", json!({})),
            ("custom-tools__run", named.clone()),
            ("custom-tools__delete", named),
            ("custom-tools__create", create),
        ] {
            let (code, message) = bench.err(tool, args).await;
            assert_eq!(code, "E_TOOL_PATH_ESCAPE", "{tool} {shelf}: {message}");
        }
        std::fs::remove_file(project.join(shelf)).unwrap();
        assert!(project.join("victim/victim/tool.yaml").is_file());
        assert!(!project.join("victim/new").exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reading_tool_follows_a_link_that_is_swapped_in() {
    let bench = Bench::new();
    bench.write("x", "inside");
    bench.write("d/inside", "inside");
    let outside = bench.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "OUTSIDE").unwrap();
    let _swapper = LinkSwapper::start(bench.work(), outside);
    let calls = [
        ("fs__read", json!({"path": "x"})),
        ("fs__read", json!({"path": "d/secret"})),
        ("fs__grep", json!({"pattern": "OUT", "path": "x"})),
        ("fs__grep", json!({"pattern": "OUT", "path": "d"})),
        ("fs__grep", json!({"pattern": "OUT"})),
        ("fs__glob", json!({"pattern": "**/secret"})),
        ("fs__glob", json!({"pattern": "secret", "path": "d"})),
        ("fs__ls", json!({"path": "d"})),
        ("file-system__read", json!({"path": "x"})),
        ("file-system__list", json!({"path": "d"})),
        ("file-system__list", json!({"path": ".", "recursive": true})),
    ];
    for round in 0..150 {
        for (tool, arguments) in &calls {
            if let Ok(output) = bench.call(tool, arguments.clone()).await {
                let mut text = output.output.to_string();
                // The search shows its own pattern if nothing matches.
                text = text.replace("**/secret", "");
                let leaked = ["OUTSIDE", "secret"]
                    .iter()
                    .find(|word| text.contains(**word));
                assert_eq!(leaked, None, "round {round}: {tool} {arguments}: {text}");
            }
        }
    }
}

/// A program in a sandbox gives a file with keys other names. No argument of these calls names the
/// file, so no rule decides about it.
#[tokio::test]
async fn no_tool_that_finds_files_itself_shows_a_file_with_keys() {
    let bench = Bench::new();
    let key = "KEY=4f7a2c";
    project_file(&bench, ".env", key);
    for name in ["sub/.ENV.local", "memory/plain.md", "sub/plain.txt"] {
        bench.write(name, format!("{key} {name}"));
    }
    project_file(&bench, ".squad/skills/other/SKILL.md", "KEY");
    for (file, link) in [
        (".env", "work/notes.txt"),
        (".env", "work/sub/deep.txt"),
        (".env", "work/memory/keys.md"),
        (".env", "work/MEMORY.md"),
        ("work/sub/.ENV.local", "work/sub/local.txt"),
        (".env", ".squad/skills/keys/SKILL.md"),
        (".env", ".squad/agents/fenster/history.md"),
        // An ordinary file with two names is found under both.
        ("work/sub/plain.txt", "work/sub/plain2.txt"),
        ("work/memory/plain.md", "work/memory/plain2.md"),
    ] {
        let link = bench.dir.path().join(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::fs::hard_link(bench.dir.path().join(file), link).unwrap();
    }
    symlink("../sub/.ENV.local", bench.work().join("memory/linked.md")).unwrap();
    let calls = [
        ("fs__grep", json!({"pattern": "KEY"}), 4),
        ("fs__grep", json!({"pattern": "KEY", "path": "sub"}), 2),
        (
            "fs__grep",
            json!({"pattern": "KEY", "include": "**/*.txt"}),
            2,
        ),
        ("memory__search", json!({"query": "KEY"}), 2),
        (
            "squad__skill",
            json!({"action": "read", "skillName": "keys"}),
            0,
        ),
        (
            "squad__skill",
            json!({"action": "read", "skillName": "other"}),
            0,
        ),
    ];
    let count = calls.len();
    for (tool, arguments, plain) in calls {
        let output = bench.call(tool, arguments.clone()).await;
        let text = output.map_or_else(|error| error.message, |done| done.output.to_string());
        let shown = text.matches(key).count();
        assert_eq!(shown, plain, "{tool} {arguments}: {text}");
        assert_eq!(
            text.matches("plain").count() > 0,
            plain > 0,
            "{tool}: {text}"
        );
    }
    // A write would change the file under its protected name.
    let learn = json!({"agentName": "fenster", "learning": "x"});
    let learned = bench.call("squad__memory", learn).await;
    assert!(!format!("{learned:?}").contains(key), "{learned:?}");
    assert_eq!(
        std::fs::read_to_string(bench.dir.path().join(".env")).unwrap(),
        key
    );
    println!("attacks: other names of a file with keys: {count} calls, none shows the keys");
}
