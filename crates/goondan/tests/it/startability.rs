//! Checks and starts agree: a check reports every error that prevents a start, with the same code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use goondan::spec::{Code, Diagnostic, Environment, Severity};
use goondan::start::checks::startability;
use goondan::{StartError, StateRoot, Swarm};

/// Number of changed projects.
const CASES: usize = 200;

/// Projects that start if `SERVICE_KEY` is set. The package has no version, because a published
/// package needs no swarm.
const PROJECTS: [&str; 3] = [
    r#"apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec:
  provider: scripted
  model: any
  options:
    default: {text: hello}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata:
  name: lead
spec:
  modelConfig:
    modelRef: Model/main
    params: {temperature: 0.5}
  description: Leads.
  prompt:
    systemRef: prompts/lead.md
  tools:
    - ref: Tool/agents
    - ref: Tool/notes
      exports: [read, write]
  requiredTools: [notes__write]
  permissions:
    default: ask
    rules:
      - tool: notes__*
        action: allow
  workdir: project
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: main}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: notes}
spec:
  entry: builtin:fs
  config:
    roots: [shared]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/lead
  agents:
    - ref: Agent/lead
    - ref: Agent/writer
  policy:
    maxStepsPerTurn: 4
"#,
    r#"apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec:
  provider: openai
  model: gpt-5
  apiKey:
    valueFrom:
      env: SERVICE_KEY
  options:
    maxRetries: 2
---
apiVersion: goondan.ai/v1
kind: Extension
metadata: {name: short}
spec:
  entry: builtin:message-window
  config:
    maxMessages: 20
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: clerk}
spec:
  modelConfig:
    modelRef: Model/main
  prompt:
    system: Answer.
  tools:
    - Tool/web
    - Tool/memory
  extensions:
    - ref: Extension/short
  output:
    schema:
      type: object
      properties: {price: {type: number}}
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: nightly}
spec:
  connectorRef: Connector/cron
  config:
    schedule: "0 2 * * *"
    timezone: Europe/Berlin
    text: Write it.
  ingress:
    rules:
      - route: {agentRef: Agent/clerk, instanceKey: night}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: desk}
spec:
  entryAgent: Agent/clerk
  agents: [Agent/clerk]
"#,
    r#"apiVersion: goondan.ai/v1
kind: Package
metadata: {name: "@acme/desk"}
spec:
  description: A desk.
---
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec:
  provider: scripted
  model: any
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: counter}
spec:
  entry: ./tools/counter.mjs
  exports:
    - name: count
      description: Counts.
      parameters: {type: object, properties: {text: {type: string}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: solo}
spec:
  modelConfig: {modelRef: Model/main}
  tools:
    - ref: Tool/counter
  maxParallelToolCalls: 2
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: hub}
spec:
  connectorRef: Connector/webhook
  secrets:
    signingSecret:
      valueFrom: {env: SERVICE_KEY}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/solo
  agents:
    - ref: Agent/solo
"#,
];

/// Changes line `at` of a project.
fn change_line(project: &str, at: usize, way: usize) -> String {
    let mut lines: Vec<String> = project.lines().map(str::to_owned).collect();
    let line = lines[at].clone();
    let with_value = |value: &str| match line.split_once(": ") {
        Some((key, _)) => format!("{key}: {value}"),
        None => format!("{line} {value}"),
    };
    lines[at] = match way {
        0 => String::new(),
        1 => {
            let indent = line.len() - line.trim_start_matches([' ', '-']).len();
            format!("{}x{}", &line[..indent], &line[indent..])
        }
        2 => with_value("42"),
        3 => with_value("\"\""),
        4 => format!("{line}\n{line}"),
        5 => format!("  {line}"),
        6 => with_value("[x]"),
        7 => with_value("{valueFrom: {env: NO_SUCH_KEY}}"),
        8 => with_value("no-such-name"),
        _ => {
            lines.truncate(at + 1);
            String::new()
        }
    };
    lines.push(String::new());
    lines.join("\n")
}

/// Number of ways in which [`change_line`] changes a line.
const WAYS: usize = 10;

/// Result of a check and of a start.
struct StartVerdicts {
    /// Errors and warnings of the check.
    checked: Vec<Diagnostic>,
    /// Codes that prevent the start; empty if it succeeds.
    refused: BTreeSet<Code>,
}

impl StartVerdicts {
    async fn of(project: &str) -> StartVerdicts {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("goondan.yaml", project);
        write("prompts/lead.md", "Lead.");
        write(
            "tools/counter.mjs",
            "export const handlers = {count: () => 1};\n",
        );
        let state = tempfile::tempdir().unwrap();
        let environment: Environment = [("SERVICE_KEY".to_owned(), "key-3b1f6c2d9a".to_owned())]
            .into_iter()
            .collect();
        StartVerdicts {
            checked: check(folder.path(), &environment, state.path()).await,
            refused: start_errors(folder.path(), environment, state.path()).await,
        }
    }

    /// Returns the reason why check and start disagree.
    fn disagreement(&self) -> Option<String> {
        let codes_of = |severity: Severity| -> BTreeSet<Code> {
            let found = self
                .checked
                .iter()
                .filter(|diagnostic| diagnostic.severity == severity);
            found.map(|diagnostic| diagnostic.code).collect()
        };
        let (errors, warnings) = (codes_of(Severity::Error), codes_of(Severity::Warning));
        let unreported = self
            .refused
            .iter()
            .find(|code| !errors.contains(code) && !warnings.contains(code));
        if let Some(code) = unreported {
            return Some(format!("the start reports {code}, the check does not"));
        }
        (self.refused.is_empty() && !errors.is_empty())
            .then(|| format!("it starts, but the check reports {errors:?}"))
    }
}

/// Checks a project like `gdn validate`.
async fn check(root: &Path, environment: &Environment, state: &Path) -> Vec<Diagnostic> {
    let project = goondan::load(root);
    let mut found = goondan::check(&project, environment);
    if let Some(bundle) = &project.bundle {
        let state = StateRoot(state.to_owned());
        found.extend(startability(bundle, environment, &state).await);
    }
    found.extend(project.diagnostics);
    found
}

/// Starts a project and returns the codes of its errors.
async fn start_errors(root: &Path, environment: Environment, state: &Path) -> BTreeSet<Code> {
    let project = goondan::load(root);
    let Some(bundle) = project.bundle else {
        let errors = project.diagnostics.into_iter().filter(Diagnostic::is_error);
        return errors.map(|diagnostic| diagnostic.code).collect();
    };
    let start = Swarm::builder(bundle)
        .state_root(state)
        .environment(environment)
        .start()
        .await;
    match start {
        Ok(swarm) => {
            swarm.shutdown().await;
            BTreeSet::new()
        }
        Err(StartError::Diagnostics(problems)) => problems
            .into_iter()
            .map(|diagnostic| diagnostic.code)
            .collect(),
        Err(other) => BTreeSet::from([other.code()]),
    }
}

#[tokio::test]
async fn the_unchanged_projects_start() {
    for project in PROJECTS {
        let verdicts = StartVerdicts::of(project).await;
        assert_eq!(verdicts.refused, BTreeSet::new(), "{:#?}", verdicts.checked);
        assert_eq!(verdicts.disagreement(), None);
    }
}

#[tokio::test]
async fn a_check_and_a_start_of_a_changed_project_agree() {
    let all: Vec<(usize, usize, usize)> = PROJECTS
        .iter()
        .enumerate()
        .flat_map(|(number, project)| (0..project.lines().count()).map(move |at| (number, at)))
        .flat_map(|(number, at)| (0..WAYS).map(move |way| (number, at, way)))
        .collect();
    // The step is prime, so all kinds of changes and all parts of the projects occur.
    let chosen = (0..CASES).map(|number| all[number * 7919 % all.len()]);
    let (mut refusals, mut wrong) = (0, Vec::new());
    for (number, at, way) in chosen {
        let project = change_line(PROJECTS[number], at, way);
        let verdicts = StartVerdicts::of(&project).await;
        refusals += usize::from(!verdicts.refused.is_empty());
        if let Some(reason) = verdicts.disagreement() {
            let line = project.lines().nth(at).unwrap_or_default();
            wrong.push(format!("project {number}, line {at} `{line}`: {reason}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Some changes must prevent the start, and some must not.
    assert!((CASES / 4..CASES).contains(&refusals), "{refusals}");
}
