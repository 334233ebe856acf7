//! Attacks by what a model may send to a tool, one class a test. One attack is one input to one export; each must end in
//! an error, and nothing outside may have been read or changed.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::bench::Bench;
use crate::custom_tools::project_file;

/// What nobody may read.
const SECRET: &str = "what nobody may read";

/// A working directory with links of every kind beside a folder `out`.
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

/// Paths that lead to `out`, or nowhere in the working directory.
fn escapes(bench: &Bench) -> Vec<String> {
    let dir = bench.dir.path().canonicalize().unwrap();
    let (dir, work) = (dir.display().to_string(), bench.work().display().to_string());
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

/// Spellings that mean something elsewhere. Here they are names, or nothing: whatever comes, it stays inside.
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

/// Everything in the folders that nobody may touch.
fn outside(bench: &Bench) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in ["out", "workshop"] {
        for entry in std::fs::read_dir(bench.dir.path().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap_or_default()));
        }
    }
    found
}

/// Every file export with this path.
fn file_calls(path: &str) -> Vec<(&'static str, Value)> {
    let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n");
    vec![
        ("fs__read", json!({"path": path})),
        ("fs__write", json!({"path": path, "content": "x"})),
        ("fs__edit", json!({"path": path, "old_text": "what", "new_text": "x"})),
        ("fs__ls", json!({"path": path})),
        ("fs__grep", json!({"path": path, "pattern": "."})),
        ("fs__glob", json!({"path": path, "pattern": "**"})),
        ("fs__apply_patch", json!({"patch": patch})),
        ("file-system__read", json!({"path": path})),
        ("file-system__write", json!({"path": path, "content": "x"})),
        ("file-system__write", json!({"path": path, "content": "x", "append": true})),
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
    println!("attacks: paths that leave: {} in {count} calls, all refused", escapes(&bench).len());
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
            assert!(!told.contains(SECRET) && !told.contains("root:x:"), "{tool} {path:.80}: {told}");
        }
    }
    assert_eq!(outside(&bench), before);
    println!("attacks: paths that look like others: {} in {count} calls, all contained", look_alikes().len());
}

/// Hosts that lead to this machine or to what is near it.
const HOSTS: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0x7f.0x0.0x0.0x1",
    "0177.0.0.1",
    "017700000001",
    "0177.0x0.1",
    "127.0.0.1.",
    "127。0。0。1",
    "１２７.0.0.1",
    "①②⑦.0.0.1",
    "%31%32%37.0.0.1",
    "0",
    "0.0.0.0",
    "0x0",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "ｌocalhost",
    "loc\u{ad}alhost",
    "user:password@127.0.0.1",
    "example.com@127.0.0.1",
    "example.com:80@127.0.0.1",
    "example.com%40@127.0.0.1",
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[::1%25lo]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fec0::1]",
    "[ff02::1]",
    "[100::1]",
    "[2001:db8::1]",
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "3232235777",
    "169.254.169.254",
    "169.254.170.2",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "100.100.100.200",
    "100.64.0.1",
    "168.63.129.16",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
];

/// Addresses that are none of the web's.
const SCHEMES: &[&str] = &[
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "file://localhost/etc/passwd",
    "ftp://example.com/",
    "gopher://127.0.0.1:70/_x",
    "dict://127.0.0.1:11211/stats",
    "ldap://127.0.0.1/",
    "data:text/plain,x",
    "javascript:alert(1)",
    "blob:http://127.0.0.1/x",
    "jar:http://127.0.0.1!/",
    "ws://127.0.0.1/",
    "unix:///var/run/docker.sock",
    "view-source:http://127.0.0.1/",
    "//127.0.0.1/",
    "/etc/passwd",
    "127.0.0.1",
    "http://",
    "http:///127.0.0.1/",
    "http://127.0.0.1\r\nHost: example.com/",
    "\u{0}http://127.0.0.1/",
    "\thttp://127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http:127.0.0.1/",
];

#[tokio::test]
async fn requests_to_what_is_not_public() {
    let server = MockServer::start().await;
    let port = server.address().port();
    let bench = Bench::new();
    let hosts = HOSTS.iter().flat_map(|host| {
        // With the port of a server that answers, so that what gets through is noticed.
        [format!("http://{host}:{port}/"), format!("https://{host}/")]
    });
    let mut count = 0;
    for url in hosts.chain(SCHEMES.iter().map(|url| (*url).to_owned())) {
        for (tool, args) in [
            ("http-fetch__get", json!({"url": url})),
            ("http-fetch__post", json!({"url": url, "bodyString": "x"})),
            ("web__fetch", json!({"url": url})),
        ] {
            count += 1;
            let (code, message) = bench.err(tool, args).await;
            // Whether there is a `localhost.` depends on the system.
            let unresolved = code == "E_TOOL_HTTP" && url.contains("localhost.");
            let refused = ["E_TOOL_ADDRESS_BLOCKED", "E_TOOL_INVALID_ARGS"].contains(&&*code);
            assert!(refused || unresolved, "{tool} {url}: {message}");
        }
    }
    for host in HOSTS {
        let url = format!("http://{host}:{port}/");
        let bench = Bench::new().config(json!({"channels": {"out": {"webhook": {"url": {"value": url}}}}}));
        let (code, message) = match bench.opens("messaging__message").await {
            Ok(()) => bench.err("messaging__message", json!({"to": "out", "content": "x"})).await,
            // An address that is none.
            Err(message) => (String::new(), message),
        };
        count += 1;
        let unresolved = code == "E_TOOL_HTTP" && url.contains("localhost.");
        assert!(code.is_empty() || code == "E_TOOL_ADDRESS_BLOCKED" || unresolved, "{url}: {code} {message}");
    }
    assert!(server.received_requests().await.unwrap().is_empty());
    println!("attacks: requests to what is not public: {} in {count} calls, all refused", HOSTS.len() + SCHEMES.len());
}

#[tokio::test]
async fn redirects_to_what_is_not_public() {
    let server = MockServer::start().await;
    let port = server.address().port();
    // A header holds ASCII alone, and what tells no host is not followed.
    let hosts = HOSTS.iter().filter(|host| host.is_ascii() && !host.starts_with("LOCAL") && !host.starts_with("local"));
    let hosts = hosts.map(|host| format!("http://{host}:{port}/in"));
    let targets: Vec<String> = hosts.chain(["file:///etc/passwd".to_owned(), "ftp://127.0.0.1/".to_owned()]).collect();
    for (number, target) in targets.iter().enumerate() {
        let status = [301, 302, 303, 307, 308][number % 5];
        let moved = ResponseTemplate::new(status).insert_header("location", target.as_str());
        Mock::given(path(format!("/{number}"))).respond_with(moved).mount(&server).await;
    }
    Mock::given(path("/in")).respond_with(ResponseTemplate::new(200).set_body_string(SECRET)).mount(&server).await;
    let bench = Bench::new().config(json!({"allowHosts": ["localhost"]}));
    let mut count = 0;
    for (number, target) in targets.iter().enumerate() {
        for tool in ["http-fetch__get", "web__fetch"] {
            count += 1;
            let error = bench.call(tool, json!({"url": format!("http://localhost:{port}/{number}")})).await;
            let stays = error.as_ref().is_ok_and(|done| done.output["status"].as_u64() >= Some(300));
            assert!(error.is_err() || stays, "{tool} {target}: {error:?}");
        }
    }
    let asked = server.received_requests().await.unwrap();
    assert!(asked.iter().all(|request| request.url.path() != "/in"));
    println!("attacks: redirects to what is not public: {} in {count} calls, all refused", targets.len());
}

/// Names that want to be places.
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

/// Every file below a folder.
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
    project_file(&bench, "a/tool.yaml", "name: a\ndescription: d\nentrypoint: a\n");
    let before = files(bench.dir.path());
    let mut count = 0;
    let mut through = Vec::new();
    for name in names() {
        for (tool, args) in [
            ("custom-tools__run", json!({"tool_name": name})),
            ("custom-tools__delete", json!({"tool_name": name})),
            ("custom-tools__create", json!({"name": name, "description": "d"})),
            ("squad__skill", json!({"action": "write", "skillName": name, "content": "x"})),
            ("squad__skill", json!({"action": "read", "skillName": name})),
            ("squad__memory", json!({"agentName": name, "learning": "x"})),
            ("squad__decide", json!({"agentName": name, "title": "x", "body": "x"})),
            ("squad__route", json!({"targetAgent": name, "task": "x"})),
            ("memory__get", json!({"path": name})),
            ("agents__request", json!({"target": name, "input": "x"})),
            ("agents__send", json!({"target": name, "input": "x"})),
            ("agents__spawn", json!({"target": name})),
            ("task__run", json!({"agent": name, "description": "d", "prompt": "p"})),
            ("sessions__history", json!({"session_id": name})),
            ("sessions__send", json!({"session_id": name, "content": "x"})),
            ("runtime__process", json!({"action": "signal", "process_id": name, "signal": "term"})),
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
    println!("attacks: names that want to be places: {} in {count} calls, all refused", names().len());
}

/// Commands that look for the variables of the process that runs them. Cargo gives this one some, which stand for keys.
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
        project_file(&bench, &format!("tools/{name}/run"), &format!("#!/bin/sh\n{command}\n"));
        bench.write("script.sh", format!("#!/bin/sh\n{command}\n"));
        for (tool, args) in [
            ("bash__exec", json!({"command": command})),
            ("bash__script", json!({"path": "script.sh"})),
            ("runtime__exec", json!({"command": command})),
            ("custom-tools__run", json!({"tool_name": name})),
        ] {
            count += 1;
            let output = bench.call(tool, args).await.map(|done| done.output.to_string()).unwrap_or_default();
            assert!(!output.contains(&kept) && !output.contains("CARGO_PKG"), "{tool} {command}: {output}");
        }
    }
    println!("attacks: variables of the parent: {} in {count} calls, all find nothing", LEAKS.len());
}
