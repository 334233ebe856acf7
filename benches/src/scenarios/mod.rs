//! One file a scenario. A scenario makes its project, drives one process, and gives back the figures of one run.

mod conversation;
mod lsp;
mod many;
mod one_shot;
mod postgres;
mod reload;
mod serve;
mod store;
mod telemetry;
mod tool_call;

use std::path::{Path, PathBuf};

use crate::figures::{Run, Summary};
use crate::gdn::Gdn;
use crate::server::ModelServer;

/// What a run has to itself.
pub struct Setup {
    /// The command.
    pub gdn: Gdn,
    /// The model.
    pub server: ModelServer,
    /// Where its project may be written.
    pub project: PathBuf,
}

/// A scenario.
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// How often it runs where nothing else is said; long ones run less often.
    pub runs: usize,
    run: fn(&Setup) -> anyhow::Result<Run>,
}

/// All scenarios, the quick ones first.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "start",
        about: "process start, first model request, answer, end",
        runs: 20,
        run: one_shot::start,
    },
    Scenario {
        name: "validate-1000",
        about: "`gdn validate` on 1,021 resources",
        runs: 10,
        run: |s| one_shot::validate(s, 1_000),
    },
    Scenario {
        name: "validate-10000",
        about: "`gdn validate` on 10,202 resources in 101 files",
        runs: 5,
        run: |s| one_shot::validate(s, 10_000),
    },
    Scenario {
        name: "steps-200",
        about: "one turn of 200 tool steps",
        runs: 5,
        run: |s| conversation::steps(s, 200),
    },
    Scenario {
        name: "steps-2000",
        about: "one turn of 2,000 tool steps",
        runs: 5,
        run: |s| conversation::steps(s, 2_000),
    },
    Scenario {
        name: "request",
        about: "200 requests of an agent to another, warm",
        runs: 5,
        run: |s| conversation::requests(s, 200),
    },
    Scenario {
        name: "tool-call",
        about: "one tool step with each form of a tool",
        runs: 5,
        run: tool_call::each_form,
    },
    Scenario {
        name: "store",
        about: "1,000 turns one after another, the state on disk and in memory",
        runs: 5,
        run: store::turns,
    },
    Scenario {
        name: "telemetry",
        about: "1,000 turns one after another: without telemetry, with a receiver, and with one that is down or silent",
        runs: 5,
        run: telemetry::turns,
    },
    Scenario {
        name: "reload-idle",
        about: "one changed resource among 1,021, nothing else to do",
        runs: 5,
        run: reload::idle,
    },
    Scenario {
        name: "reload-busy",
        about: "one changed resource among 1,021, with 16 turns under way at all times",
        runs: 5,
        run: reload::busy,
    },
    Scenario {
        name: "lsp-1000",
        about: "the language server on 1,021 resources: from an edit to its diagnostics",
        runs: 5,
        run: |s| lsp::edits(s, 1_000),
    },
    Scenario {
        name: "lsp-10000",
        about: "the language server on 10,202 resources: from an edit to its diagnostics",
        runs: 3,
        run: |s| lsp::edits(s, 10_000),
    },
    Scenario {
        name: "fan-out-1",
        about: "one instance with three model calls",
        runs: 5,
        run: |s| many::fan_out(s, 1),
    },
    Scenario {
        name: "fan-out-64",
        about: "64 instances at once, three model calls each",
        runs: 5,
        run: |s| many::fan_out(s, 64),
    },
    Scenario {
        name: "fan-out-512",
        about: "512 instances at once, three model calls each",
        runs: 5,
        run: |s| many::fan_out(s, 512),
    },
    Scenario {
        name: "fan-out-1000",
        about: "1,000 instances at once, three model calls each",
        runs: 5,
        run: |s| many::fan_out(s, 1_000),
    },
    Scenario {
        name: "serve-64",
        about: "64 conversations over HTTP, each one turn after another, with a model that takes 50 ms",
        runs: 5,
        run: |s| serve::turns(s, 64, 50),
    },
    Scenario {
        name: "serve-first-byte",
        about: "a streamed answer over HTTP: the client's first byte after the model's",
        runs: 5,
        run: |s| serve::first_byte(s, 200),
    },
    Scenario {
        name: "serve-streams-1000",
        about: "memory of 1,000 open streams",
        runs: 3,
        run: |s| serve::streams(s, 1_000),
    },
    Scenario {
        name: "serve-hostile",
        about: "memory after junk and bodies that are too large, and with 1,000 streams that nobody reads",
        runs: 1,
        run: serve::hostile,
    },
    Scenario {
        name: "postgres-1",
        about: "1,000 turns one after another, in PostgreSQL",
        runs: 5,
        run: |s| postgres::alone(s, 1_000),
    },
    Scenario {
        name: "postgres-128",
        about: "turns with 128 under way at all times, in PostgreSQL, on one node",
        runs: 5,
        run: |s| postgres::crowd(s, 128, 20_000, 1),
    },
    Scenario {
        name: "postgres-128-nodes",
        about: "turns with 128 under way at all times, in PostgreSQL, on three nodes",
        runs: 3,
        run: |s| postgres::crowd(s, 128, 20_000, 3),
    },
    Scenario {
        name: "postgres-history",
        about: "turns on a fresh PostgreSQL, and on one that holds 1,000,000 messages and as many events of others",
        runs: 1,
        run: |s| postgres::history(s, 1_000_000),
    },
    Scenario {
        name: "postgres-idle",
        about: "memory of nodes with 100,000 idle instances in PostgreSQL",
        runs: 1,
        run: |s| postgres::idle(s, 100_000),
    },
    Scenario {
        name: "idle-1000",
        about: "memory of 1,000 idle instances",
        runs: 5,
        run: |s| many::idle(s, 1_000),
    },
    Scenario {
        name: "idle-10000",
        about: "memory of 10,000 idle instances",
        runs: 5,
        run: |s| many::idle(s, 10_000),
    },
    Scenario {
        name: "idle-100000",
        about: "memory of 100,000 idle instances",
        runs: 1,
        run: |s| many::idle(s, 100_000),
    },
    Scenario {
        name: "long-run",
        about: "1,000,000 turns over the scripted model",
        runs: 1,
        run: |s| many::long_run(s, 1_000_000),
    },
];

impl Scenario {
    /// Runs it `runs` times, each with a fresh state, and once before that to warm the disk's cache.
    pub fn measure(
        &self,
        program: &Path,
        state: Option<&Path>,
        runs: usize,
    ) -> anyhow::Result<Summary> {
        let server = ModelServer::start(0)?;
        // Deleted at the end: a file system remembers for seconds what was deleted, and makes new files more slowly then.
        let mut folders = Vec::new();
        let mut one = || {
            let folder = match state {
                Some(below) => tempfile::tempdir_in(below)?,
                None => tempfile::tempdir()?,
            };
            let gdn = Gdn {
                program: program.to_owned(),
                state: folder.path().join("state"),
                variables: Vec::new(),
            };
            let setup = Setup {
                gdn,
                server: server.clone(),
                project: folder.path().join("project"),
            };
            folders.push(folder);
            server.take();
            (self.run)(&setup)
        };
        if runs > 1 {
            one()?;
        }
        let runs: Vec<Run> = (0..runs).map(|_| one()).collect::<anyhow::Result<_>>()?;
        Ok(Summary::of(self.name, &runs))
    }
}
