//! Warnings about duties that an agent cannot fulfill.

use std::fs;
use std::path::Path;

use goondan::spec::codes::explanations;
use goondan::spec::{Code, Environment};
use goondan::{Project, Swarm};

const DUTIES: [Code; 5] = [
    Code::NO_APPROVER,
    Code::LOST_ANSWER,
    Code::UNREACHABLE_AGENT,
    Code::IDLE_SUBAGENT,
    Code::SEPARATE_WORKDIRS,
];

const MODEL: &str = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: main}\n\
                     spec: {provider: scripted, model: any}\n";

/// Loads `text` with a Model, and an Agent and a Swarm if it has none.
fn load(text: &str) -> (tempfile::TempDir, Project) {
    let head = "\n---\napiVersion: goondan.ai/v1\n";
    let mut names: Vec<&str> = text
        .split("kind: Agent\nmetadata: {name: ")
        .skip(1)
        .filter_map(|rest| rest.split('}').next())
        .collect();
    let mut whole = format!("{text}---\n{MODEL}");
    if names.is_empty() {
        names.push("writer");
        whole += &format!(
            "{head}kind: Agent\nmetadata: {{name: writer}}\nspec: {{modelConfig: {{modelRef: main}}}}"
        );
    }
    whole += &format!(
        "{head}kind: Swarm\nmetadata: {{name: default}}\nspec: {{entryAgent: {}, agents: [{}]}}\n",
        names[0],
        names.join(", ")
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("goondan.yaml"), whole).unwrap();
    let project = goondan::load(folder.path());
    (folder, project)
}

/// Returns the duties that a check of the project reports.
fn reported_duties(project: &Project) -> Vec<Code> {
    assert!(project.bundle.is_some(), "{:#?}", project.diagnostics);
    let found = goondan::check(project, &Environment::default());
    let codes = found.into_iter().map(|problem| problem.code);
    codes.filter(|code| DUTIES.contains(code)).collect()
}

#[test]
fn each_duty_example_reports_its_code() {
    for code in DUTIES {
        let mut rows = explanations();
        let row = rows.find(|row| row.code == code).unwrap();
        let example = row.example.as_ref().unwrap();
        let (_folder, project) = load(example.wrong);
        assert_eq!(reported_duties(&project), [code], "{}", example.wrong);
        let (_folder, project) = load(example.right);
        assert_eq!(reported_duties(&project), [], "{}", example.right);
    }
}

#[tokio::test]
async fn a_start_reports_the_same_duties_as_a_check() {
    for code in DUTIES {
        let mut rows = explanations();
        let row = rows.find(|row| row.code == code).unwrap();
        let (_folder, project) = load(row.example.as_ref().unwrap().wrong);
        let state = tempfile::tempdir().unwrap();
        let swarm = Swarm::builder(project.bundle.unwrap())
            .state_root(state.path())
            .environment(Environment::default())
            .start()
            .await
            .unwrap();
        let codes: Vec<Code> = swarm
            .warnings()
            .iter()
            .map(|diagnostic| diagnostic.code)
            .collect();
        assert_eq!(codes, [code]);
        assert!(
            swarm
                .warnings()
                .iter()
                .all(|diagnostic| diagnostic.suggestion.is_some())
        );
        swarm.shutdown().await;
    }
}

#[test]
fn an_ignored_base_url_variable_is_reported() {
    let text = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: real}\nspec: {provider: openai, model: gpt-5}\n";
    let (_folder, project) = load(text);
    let variables = [("OPENAI_BASE_URL".to_owned(), "http://lab/v1".to_owned())];
    let environment: Environment = variables.into_iter().collect();
    let has_warning = |project: &Project| {
        let found = goondan::check(project, &environment);
        found
            .iter()
            .any(|diagnostic| diagnostic.code == Code::IGNORED_VARIABLE)
    };
    assert!(has_warning(&project));
    let (_folder, project) = load(&text.replace("gpt-5}", "gpt-5, endpoint: \"http://lab/v1\"}"));
    assert!(!has_warning(&project));
}

#[tokio::test]
async fn a_reload_keeps_the_warnings_of_its_generation_and_does_not_repeat_them() {
    let text = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: real}\nspec: {provider: openai, model: gpt-5}\n";
    let (_folder, project) = load(text);
    let state = tempfile::tempdir().unwrap();
    let variables = [("OPENAI_BASE_URL".to_owned(), "http://lab/v1".to_owned())];
    let swarm = Swarm::builder(project.bundle.unwrap())
        .state_root(state.path())
        .environment(variables.into_iter().collect())
        .start()
        .await
        .unwrap();
    let codes = || -> Vec<Code> {
        swarm
            .warnings()
            .iter()
            .map(|diagnostic| diagnostic.code)
            .collect()
    };
    assert_eq!(codes(), [Code::IGNORED_VARIABLE]);
    let outcome = swarm.reload().await;
    assert_eq!(outcome.result.unwrap(), 2);
    assert_eq!(codes(), [Code::IGNORED_VARIABLE]);
    assert_eq!(outcome.warnings, []);
    swarm.shutdown().await;
}

/// Returns an agent with required tools and a connection.
fn bot(connector: &str, tool: &str, more: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: a}}\nspec: {{modelConfig: {{modelRef: main}}, \
         tools: [{{ref: Tool/telegram}}, {{ref: Tool/bash}}], requiredTools: {tool}{more}}}\n---\n\
         apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: c}}\n\
         spec: {{connectorRef: Connector/{connector}}}\n"
    )
}

#[test]
fn a_required_answer_in_the_same_channel_needs_no_approver() {
    let found = |connector, tool, more| reported_duties(&load(&bot(connector, tool, more)).1);
    assert_eq!(found("telegram", "[telegram__send]", ""), []);
    assert_eq!(found("telegram", "[bash__exec, telegram__send]", ""), []);
    let edit = found("telegram", "[telegram__edit]", "");
    assert_eq!(edit, [Code::NO_APPROVER]);
    let written = found(
        "telegram",
        "[telegram__send]",
        ", permissions: {default: ask}",
    );
    assert_eq!(written, [Code::NO_APPROVER]);
    // A rule may allow some calls.
    let rule = ", permissions: {rules: [{tool: \"bash__*\", args: {command: ls}, action: allow}]}";
    assert_eq!(found("telegram", "[bash__exec]", rule), []);
    let approvers = bot("telegram", "[bash__exec]", "").replace(
        "Connector/telegram}",
        "Connector/telegram, allow: {approvers: [\"1\"]}}",
    );
    assert_eq!(reported_duties(&load(&approvers).1), []);
}

#[test]
fn example_projects_have_no_unmet_duties() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folders = fs::read_dir(examples)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let projects = folders.filter(|folder| folder.join("goondan.yaml").exists());
    for folder in projects {
        let project = goondan::load(&folder);
        if project.bundle.is_some() {
            assert_eq!(reported_duties(&project), [], "{}", folder.display());
        }
    }
}
