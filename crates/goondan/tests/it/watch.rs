//! Reloads of a watched swarm after different kinds of file changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use goondan::spec::Environment;
use goondan::{Input, ProjectWatch, ReloadNews, ReloadOutcome, Swarm, WatchOptions};
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;

const BUNDLE: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, options: {script: words/script.yaml}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, tools: [{ref: Tool/file-system}], workdir: project}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";

/// Time limit of a wait for a reload; exceeded only if no reload occurs.
const LIMIT: Duration = Duration::from_secs(60);

/// Watches with file system events only, because periodic checks would hide missing events.
fn events_only() -> WatchOptions {
    WatchOptions {
        quiet_check: Duration::from_secs(3_600),
        ..WatchOptions::default()
    }
}

struct WatchedProject {
    _folder: TempDir,
    project: PathBuf,
    swarm: Swarm,
    news: UnboundedReceiver<ReloadNews>,
    _watch: ProjectWatch,
}

impl WatchedProject {
    /// Starts a project whose model answers `first`. The path `state` of its state root is relative
    /// to the parent directory of the project.
    async fn start(options: WatchOptions, state: &str) -> WatchedProject {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        write_project(&project, "first");
        let bundle = goondan::load(&project).bundle.unwrap();
        let builder = Swarm::builder(bundle)
            .state_root(folder.path().join(state))
            .approve_all(true);
        let swarm = builder
            .environment(Environment::default())
            .start()
            .await
            .unwrap();
        let news = swarm.reload_news();
        let watch = swarm.watch(options);
        let watched = WatchedProject {
            _folder: folder,
            project,
            swarm,
            news,
            _watch: watch,
        };
        assert_eq!(watched.answer().await, "first");
        watched
    }

    async fn answer(&self) -> String {
        let turn = self.swarm.send(Input::text("hello")).await.unwrap();
        turn.result().await.unwrap().response_text()
    }

    async fn reload(&mut self) -> ReloadOutcome {
        loop {
            let news = tokio::time::timeout(LIMIT, self.news.recv())
                .await
                .expect("no reload occurred in time")
                .unwrap();
            if let ReloadNews::Reloaded(outcome) = news {
                return outcome.as_ref().clone();
            }
        }
    }

    /// Waits for reloads until the model answers `text`.
    async fn wait_for_answer(&mut self, text: &str) {
        while self.answer().await != text {
            drop(self.reload().await);
        }
    }
}

fn write_project(project: &Path, text: &str) {
    fs::create_dir_all(project.join("words")).unwrap();
    fs::write(project.join("goondan.yaml"), BUNDLE).unwrap();
    write_script(&project.join("words/script.yaml"), text);
}

fn write_script(script: &Path, text: &str) {
    fs::write(script, format!("default: {{text: {text}}}\n")).unwrap();
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_link_causes_a_reload() {
    let mut watched = WatchedProject::start(events_only(), "state").await;
    let directory = watched.project.join("words");
    // Like mounted configuration: the file is a link through a directory that is also a link.
    for (version, text) in [("..1", "second"), ("..2", "third")] {
        fs::create_dir(directory.join(version)).unwrap();
        write_script(&directory.join(version).join("script.yaml"), text);
    }
    std::os::unix::fs::symlink("..1", directory.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/script.yaml", directory.join("link")).unwrap();
    fs::rename(directory.join("link"), directory.join("script.yaml")).unwrap();
    watched.wait_for_answer("second").await;
    std::os::unix::fs::symlink("..2", directory.join("..next")).unwrap();
    fs::rename(directory.join("..next"), directory.join("..data")).unwrap();
    watched.wait_for_answer("third").await;
    // The target of both links changes in place.
    write_script(&directory.join("..2/script.yaml"), "fourth");
    watched.wait_for_answer("fourth").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_directory_causes_a_reload_and_stays_watched() {
    let mut watched = WatchedProject::start(events_only(), "state").await;
    let project = watched.project.clone();
    for text in ["second", "third"] {
        let replacement = project.with_extension("fresh");
        write_project(&replacement, text);
        fs::rename(&project, project.with_extension(text)).unwrap();
        fs::rename(&replacement, &project).unwrap();
        watched.wait_for_answer(text).await;
    }
    // The new directories are also watched.
    write_script(&project.join("words/script.yaml"), "fourth");
    watched.wait_for_answer("fourth").await;
    fs::remove_dir_all(project.join("words")).unwrap();
    // The notification of an earlier reload can still arrive.
    while watched.reload().await.result.is_ok() {}
    write_project(&project, "fifth");
    watched.wait_for_answer("fifth").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_simultaneous_changes_are_all_loaded() {
    let mut watched = WatchedProject::start(events_only(), "state").await;
    fs::create_dir(watched.project.join("tools")).unwrap();
    for number in 0..200 {
        let tool = format!(
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: t{number}}}\nspec: {{entry: 'builtin:wait'}}\n"
        );
        fs::write(watched.project.join(format!("tools/t{number}.yaml")), tool).unwrap();
    }
    let mut added = 0;
    while added < 200 {
        // A partially written file is an invalid edit, which a later reload corrects.
        added += watched.reload().await.plan.added.len();
    }
    assert_eq!(added, 200);
}

/// The settle time is longer than the time limit of the test.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_complete_change_is_loaded_before_the_settle_time() {
    let mut watched = WatchedProject::start(
        WatchOptions {
            settle: 2 * LIMIT,
            ..events_only()
        },
        "state",
    )
    .await;
    write_script(&watched.project.join("words/script.yaml"), "second");
    let outcome = watched.reload().await;
    assert_eq!(
        (outcome.result, watched.answer().await.as_str()),
        (Ok(2), "second")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_file_is_an_error_only_after_the_settle_time() {
    let settle = Duration::from_secs(2);
    let mut watched = WatchedProject::start(
        WatchOptions {
            settle,
            ..events_only()
        },
        "state",
    )
    .await;
    let script = watched.project.join("words/script.yaml");
    fs::write(&script, "default: {text: ").unwrap();
    // Longer than a load and shorter than the settle time.
    tokio::time::sleep(settle / 4).await;
    write_script(&script, "second");
    assert_eq!(watched.reload().await.result, Ok(2));
    fs::write(&script, "default: {text: ").unwrap();
    assert!(watched.reload().await.result.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_polled_without_file_system_events() {
    let options = WatchOptions {
        listen: false,
        poll: Duration::from_millis(50),
        ..WatchOptions::default()
    };
    let mut watched = WatchedProject::start(options, "state").await;
    write_script(&watched.project.join("words/script.yaml"), "second");
    watched.wait_for_answer("second").await;
    write_project(&watched.project, "third");
    watched.wait_for_answer("third").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_written_by_agents_and_by_the_swarm_cause_no_reload() {
    // The state root is in the project, which is also the working directory of the agent.
    let mut watched = WatchedProject::start(events_only(), "project/state").await;
    let write = serde_json::json!({"path": "notes/agents.txt", "content": "x"});
    watched
        .swarm
        .call_tool(None, None, "file-system__write", write)
        .await
        .unwrap();
    fs::write(
        watched.project.join("words/script.yaml"),
        fs::read(watched.project.join("words/script.yaml")).unwrap(),
    )
    .unwrap();
    watched.answer().await;
    write_script(&watched.project.join("words/script.yaml"), "second");
    let outcome = watched.reload().await;
    assert_eq!(
        (outcome.result.unwrap(), outcome.plan.changed),
        (2, vec!["Model/m".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_below_the_state_root_is_watched() {
    let mut watched = WatchedProject::start(events_only(), ".").await;
    write_script(&watched.project.join("words/script.yaml"), "second");
    watched.wait_for_answer("second").await;
}

/// A reload compares the values of secret files with the values at the start.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_detects_only_changed_secret_files() {
    let folder = tempfile::tempdir().unwrap();
    let (project, secrets) = (folder.path().join("project"), folder.path().join("secrets"));
    write_project(&project, "first");
    let with_key = "model: any, apiKey: {valueFrom: {secretRef: {ref: Secret/models, key: token}}}";
    fs::write(
        project.join("goondan.yaml"),
        BUNDLE.replace("model: any", with_key),
    )
    .unwrap();
    fs::create_dir(&secrets).unwrap();
    fs::write(secrets.join("models"), "a-long-secret").unwrap();
    let environment = [(
        "GOONDAN_SECRETS_DIR".to_owned(),
        secrets.display().to_string(),
    )];
    let loaded = goondan::load(&project);
    let bundle = loaded
        .bundle
        .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    let builder = Swarm::builder(bundle).state_root(folder.path().join("state"));
    let swarm = builder
        .environment(environment.into_iter().collect())
        .start()
        .await
        .unwrap();
    let outcome = swarm.reload().await;
    assert_eq!(outcome.result, Ok(2));
    assert!(
        outcome.plan.changed.is_empty(),
        "{:?}",
        outcome.plan.changed
    );
    fs::write(secrets.join("models"), "another-secret").unwrap();
    assert_eq!(swarm.reload().await.plan.changed.len(), 1);
    swarm.shutdown().await;
}

/// Returns a Tool whose export has the parameters `keys` in this order.
fn tool(name: &str, keys: [&str; 2]) -> String {
    let keys = keys
        .map(|key| format!("{key}: {{type: number}}"))
        .join(", ");
    format!(
        "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: {name}}}\nspec:\n  entry: 'builtin:wait'\n  \
         exports: [{{name: seconds, parameters: {{type: object, properties: {{{keys}}}}}}}]\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_generation_reuses_only_unchanged_tools() {
    let mut watched = WatchedProject::start(events_only(), "state").await;
    let project = watched.project.clone();
    let write = |name: &str, keys| {
        fs::write(project.join(format!("tools/{name}.yaml")), tool(name, keys)).unwrap()
    };
    fs::create_dir(project.join("tools")).unwrap();
    write("one", ["seconds", "a"]);
    write("two", ["seconds", "a"]);
    let tool_refs = "[{ref: Tool/one}, {ref: Tool/two}]";
    fs::write(
        project.join("goondan.yaml"),
        BUNDLE.replace("[{ref: Tool/file-system}]", tool_refs),
    )
    .unwrap();
    let catalog_entries = |swarm: &Swarm| {
        let catalog = swarm.catalog("a").unwrap();
        catalog
            .iter()
            .map(|tool| format!("{} {}", tool.name, tool.parameters["properties"]))
            .collect::<Vec<_>>()
    };
    let keys = |[first, second]: [&str; 2]| {
        format!("{{\"{first}\":{{\"type\":\"number\"}},\"{second}\":{{\"type\":\"number\"}}}}")
    };
    let (before, after) = (keys(["seconds", "a"]), keys(["a", "seconds"]));
    while catalog_entries(&watched.swarm)
        != [
            format!("one__seconds {before}"),
            format!("two__seconds {before}"),
        ]
    {
        drop(watched.reload().await);
    }
    // Only the order differs, which is visible to the model.
    write("two", ["a", "seconds"]);
    while catalog_entries(&watched.swarm)
        != [
            format!("one__seconds {before}"),
            format!("two__seconds {after}"),
        ]
    {
        drop(watched.reload().await);
    }
    assert_eq!(watched.answer().await, "first");
}
