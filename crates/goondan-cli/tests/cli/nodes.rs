//! Several `gdn serve` on one database. Skipped without a database (see tests/postgres.sh).
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

use crate::projects::manifest;
use crate::sandbox::Sandbox;

/// A swarm whose nodes share a database.
struct Cluster {
    sandbox: Sandbox,
    address: String,
}

impl Cluster {
    /// Creates a cluster whose model answers with `text` after `millis`. Prints a message and
    /// returns `None` without a database.
    #[allow(clippy::print_stderr, reason = "reports that the test is skipped")]
    fn new(text: &str, millis: u32) -> Option<Self> {
        let Ok(address) = std::env::var("GOONDAN_TEST_POSTGRES") else {
            eprintln!("skipped: GOONDAN_TEST_POSTGRES names no database; see tests/postgres.sh");
            return None;
        };
        let cluster = Cluster {
            sandbox: Sandbox::new(),
            address,
        };
        cluster.edit(text, millis);
        Some(cluster)
    }

    fn edit(&self, text: &str, millis: u32) {
        let options = format!("{{default: {{text: {text}, delayMs: {millis}}}}}");
        let model = format!("{{provider: scripted, model: any, options: {options}}}");
        self.sandbox.write("p/goondan.yaml", &manifest(&model, ""));
    }

    /// Starts a node with its own state root, as on another machine.
    fn node(&self, name: &str, turns: &str) -> Node {
        let root = self.sandbox.dir().join(name);
        let arguments = [
            "serve",
            "p",
            "--listen",
            "127.0.0.1:0",
            "--node-turns",
            turns,
            "--store",
            &self.address,
        ];
        let mut command = self.sandbox.command(&arguments);
        command
            .arg("--state-root")
            .arg(root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Node { child, stderr }
    }

    fn gdn(&self, command: &[&str]) -> Value {
        let outcome = self
            .sandbox
            .gdn(&[command, &["--json", "--store", &self.address]].concat());
        serde_json::from_str(outcome.ok()).unwrap()
    }

    /// Waits until the row of the node meets the condition. Returns the row.
    fn wait_for_node(&self, node: &Node, condition: impl Fn(&Value) -> bool) -> Value {
        loop {
            let nodes = self.gdn(&["nodes"]);
            let mut nodes = nodes.as_array().unwrap().iter();
            if let Some(found) =
                nodes.find(|found| found["process"] == node.child.id() && condition(found))
            {
                return found.clone();
            }
        }
    }

    /// Starts a leader, and a worker that received SIGTERM while it runs a turn.
    fn with_finishing_worker(&self) -> (Node, Node) {
        let leader = self.node("leader", "0");
        self.wait_for_node(&leader, |node| node["state"] == "leader");
        let mut worker = self.node("worker", "5");
        self.wait_for_node(&worker, |node| node["state"] == "worker");
        self.send("hi");
        self.wait_for_node(&worker, |node| node["running"] == 1);
        worker.signal("TERM");
        worker.read_until_line("Finishing the running turns");
        (leader, worker)
    }

    fn send(&self, text: &str) {
        self.gdn(&["send", text, "--project", "p"]);
    }

    /// Waits until the conversation has at least `count` messages. Returns them as JSON text.
    fn messages(&self, count: usize) -> String {
        loop {
            let shown = self.gdn(&["instance", "show", "a:main", "--project", "p"]);
            if shown["messages"]
                .as_array()
                .is_some_and(|messages| messages.len() >= count)
            {
                return shown.to_string();
            }
        }
    }
}

/// A `gdn serve`.
struct Node {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Node {
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Reads until a line starts with `prefix`.
    fn read_until_line(&mut self, prefix: &str) {
        let mut lines = self.stderr.by_ref().lines();
        assert!(
            lines.any(|line| line.unwrap().starts_with(prefix)),
            "{prefix}"
        );
    }

    fn exit_code(&mut self) -> Option<i32> {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_worker_finishes_its_turns_after_sigterm_and_accepts_no_others() {
    let Some(cluster) = Cluster::new("late", 5_000) else {
        return;
    };
    let (_leader, mut worker) = cluster.with_finishing_worker();
    cluster.send("and now?");
    assert_eq!(worker.exit_code(), Some(0));
    cluster.messages(4);
    let logs = cluster.sandbox.gdn(&[
        "logs",
        "--project",
        "p",
        "--json",
        "--store",
        &cluster.address,
    ]);
    let started = logs
        .ok()
        .lines()
        .filter(|line| line.contains(r#""turn.started""#))
        .count();
    assert_eq!(started, 2, "each turn started once: {}", logs.stdout);
}

#[test]
fn a_leader_exits_with_0_after_sigterm() {
    let Some(cluster) = Cluster::new("late", 0) else {
        return;
    };
    let mut leader = cluster.node("leader", "5");
    leader.read_until_line("Serving the swarm");
    leader.signal("TERM");
    assert_eq!(leader.exit_code(), Some(0));
}

#[test]
fn a_second_sigterm_hands_a_workers_turns_to_the_leader() {
    let Some(cluster) = Cluster::new("late", 600_000) else {
        return;
    };
    let (leader, mut worker) = cluster.with_finishing_worker();
    worker.signal("TERM");
    assert_eq!(worker.exit_code(), Some(143));
    cluster.wait_for_node(&leader, |node| node["running"] == 1);
}

#[test]
fn a_worker_loads_the_project_that_the_leader_reloaded() {
    let Some(cluster) = Cluster::new("first", 0) else {
        return;
    };
    let leader = cluster.node("leader", "0");
    let before = cluster.wait_for_node(&leader, |node| {
        node["state"] == "leader" && node["generation"].is_string()
    });
    let worker = cluster.node("worker", "5");
    cluster.wait_for_node(&worker, |node| node["state"] == "worker");
    cluster.send("hi");
    assert!(cluster.messages(2).contains("first"));
    cluster.edit("second", 0);
    leader.signal("HUP");
    let served = cluster.wait_for_node(&leader, |node| node["generation"] != before["generation"]);
    cluster.wait_for_node(&worker, |node| {
        node["state"] == "worker" && node["generation"] == served["generation"]
    });
    cluster.send("hi");
    assert!(cluster.messages(4).contains("second"));
}
