//! The static checks and a start agree about damaged projects.

use std::collections::BTreeSet;

use goondan::spec::{Code, Diagnostic, Environment};
use goondan::start::checks::startability;
use goondan::{StartError, StateRoot, Swarm};

const PROJECT: &str = "\
apiVersion: goondan.ai/v1
kind: Model
metadata:
  name: main
spec:
  provider: scripted
  model: any
---
apiVersion: goondan.ai/v1
kind: Model
metadata:
  name: spare
spec:
  provider: openai
  model: any
  apiKey: {value: a-key-of-the-test}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata:
  name: lead
spec:
  modelConfig:
    modelRef: Model/main
    fallbacks:
      - ref: Model/spare
  prompt:
    system: You lead.
  tools:
    - ref: Tool/fs
      exports: [read]
    - Tool/agents
    - ref: Tool/notes
  extensions:
    - ref: Extension/message-window
      config:
        maxMessages: 20
  requiredTools:
    - fs__read
  permissions:
    default: allow
---
apiVersion: goondan.ai/v1
kind: Tool
metadata:
  name: notes
spec:
  entry: ./notes
---
apiVersion: goondan.ai/v1
kind: Connection
metadata:
  name: nightly
spec:
  connectorRef: Connector/cron
  config:
    schedule: 0 2 * * *
    timezone: Europe/Berlin
    text: Write it.
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata:
  name: default
spec:
  entryAgent: Agent/lead
  agents:
    - ref: Agent/lead
";

const TOOL: &str = "\
name: notes
description: Counts.
entrypoint: run.sh
parameters: []
";

/// Values that replace the value of a line.
const VALUES: [&str; 6] = [
    "",
    "7",
    "nope",
    "{valueFrom: {env: NOT_SET_ANYWHERE}}",
    "[]",
    "openai",
];

/// Returns the damaged projects: each line removed, or with another value.
fn damaged() -> Vec<String> {
    let lines: Vec<&str> = PROJECT.lines().collect();
    let replaced = |index: usize, line: Option<String>| {
        let lines = lines.iter().enumerate().filter_map(|(at, old)| {
            if at == index {
                line.clone()
            } else {
                Some((*old).to_owned())
            }
        });
        lines.collect::<Vec<_>>().join("\n") + "\n"
    };
    let mut projects = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        projects.push(replaced(index, None));
        if let Some((key, value)) = line.split_once(": ") {
            let others = VALUES.iter().filter(|other| **other != value);
            projects.extend(others.map(|other| replaced(index, Some(format!("{key}: {other}")))));
        }
    }
    projects
}

fn codes(diagnostics: &[Diagnostic]) -> BTreeSet<Code> {
    diagnostics.iter().map(|problem| problem.code).collect()
}

#[tokio::test]
async fn damaged_projects_are_refused_by_the_checks_and_the_start_alike() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("project");
    std::fs::create_dir_all(root.join("notes")).unwrap();
    std::fs::write(root.join("notes/tool.yaml"), TOOL).unwrap();
    std::fs::write(root.join("notes/run.sh"), "#!/bin/sh\necho 1\n").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.join("notes/run.sh"), mode).unwrap();
    }
    let state = StateRoot(folder.path().join("state"));
    let (mut refused, mut loaded) = (0, 0);
    let projects = damaged();
    assert!(projects.len() >= 200, "{}", projects.len());
    for text in std::iter::once(PROJECT.to_owned()).chain(projects) {
        std::fs::write(root.join("goondan.yaml"), &text).unwrap();
        let project = goondan::load(&root);
        let Some(bundle) = project.bundle.clone() else {
            continue;
        };
        loaded += 1;
        let environment = Environment::default();
        let mut told = project.diagnostics.clone();
        told.extend(goondan::check(&project, &environment));
        told.extend(startability(&bundle, &environment, &state).await);
        let builder = Swarm::builder(bundle)
            .state_root(&state.0)
            .environment(environment);
        let started = builder.start().await;
        match started {
            Ok(swarm) => {
                swarm.shutdown().await;
                let wrong = told.iter().find(|problem| problem.is_error());
                assert!(wrong.is_none(), "it starts, but {wrong:?}\n{text}");
            }
            Err(StartError::Diagnostics(problems)) => {
                refused += 1;
                let (told, problems) = (codes(&told), codes(&problems));
                assert!(problems.is_subset(&told), "{problems:?} {told:?}\n{text}");
            }
            Err(other) => panic!("{other}\n{text}"),
        }
    }
    assert!(refused >= 10 && loaded >= 60, "{refused} of {loaded}");
}
