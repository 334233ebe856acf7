//! A watched swarm follows its files, however they are changed.

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

/// Nothing here takes that long, unless it never comes.
const LIMIT: Duration = Duration::from_secs(60);

/// Nothing but what the system tells: a look without a reason must not hide that it is deaf.
fn listening() -> WatchOptions {
    WatchOptions {
        quiet_check: Duration::from_secs(3_600),
        ..WatchOptions::default()
    }
}

struct Watched {
    _folder: TempDir,
    project: PathBuf,
    swarm: Swarm,
    news: UnboundedReceiver<ReloadNews>,
    _watch: ProjectWatch,
}

impl Watched {
    /// A project whose model says `first`, with its state in `state` below the project's parent.
    async fn start(options: WatchOptions, state: &str) -> Watched {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        lay_out(&project, "first");
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
        let watched = Watched {
            _folder: folder,
            project,
            swarm,
            news,
            _watch: watch,
        };
        assert_eq!(watched.ask().await, "first");
        watched
    }

    async fn ask(&self) -> String {
        let turn = self.swarm.send(Input::text("hello")).await.unwrap();
        turn.result().await.unwrap().response_text()
    }

    async fn reload(&mut self) -> ReloadOutcome {
        loop {
            let news = tokio::time::timeout(LIMIT, self.news.recv())
                .await
                .expect("a reload comes")
                .unwrap();
            if let ReloadNews::Reloaded(outcome) = news {
                return outcome.as_ref().clone();
            }
        }
    }

    /// Reloads until the model says `words`.
    async fn until(&mut self, words: &str) {
        while self.ask().await != words {
            drop(self.reload().await);
        }
    }
}

fn lay_out(project: &Path, words: &str) {
    fs::create_dir_all(project.join("words")).unwrap();
    fs::write(project.join("goondan.yaml"), BUNDLE).unwrap();
    say(&project.join("words/script.yaml"), words);
}

fn say(script: &Path, words: &str) {
    fs::write(script, format!("default: {{text: {words}}}\n")).unwrap();
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn links_are_switched_over() {
    let mut watched = Watched::start(listening(), "state").await;
    let words = watched.project.join("words");
    // As configuration is mounted: the name leads to a folder whose name leads to another one.
    for (version, text) in [("..1", "second"), ("..2", "third")] {
        fs::create_dir(words.join(version)).unwrap();
        say(&words.join(version).join("script.yaml"), text);
    }
    std::os::unix::fs::symlink("..1", words.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/script.yaml", words.join("link")).unwrap();
    fs::rename(words.join("link"), words.join("script.yaml")).unwrap();
    watched.until("second").await;
    std::os::unix::fs::symlink("..2", words.join("..next")).unwrap();
    fs::rename(words.join("..next"), words.join("..data")).unwrap();
    watched.until("third").await;
    // In place, behind both links.
    say(&words.join("..2/script.yaml"), "fourth");
    watched.until("fourth").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_replaced() {
    let mut watched = Watched::start(listening(), "state").await;
    let project = watched.project.clone();
    for words in ["second", "third"] {
        let fresh = project.with_extension("fresh");
        lay_out(&fresh, words);
        fs::rename(&project, project.with_extension(words)).unwrap();
        fs::rename(&fresh, &project).unwrap();
        watched.until(words).await;
    }
    // The new folders are watched like the old ones.
    say(&project.join("words/script.yaml"), "fourth");
    watched.until("fourth").await;
    fs::remove_dir_all(project.join("words")).unwrap();
    // What came of the words before it may not have been told yet.
    while watched.reload().await.result.is_ok() {}
    lay_out(&project, "fifth");
    watched.until("fifth").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_changes_at_once_end_in_what_the_files_say() {
    let mut watched = Watched::start(listening(), "state").await;
    fs::create_dir(watched.project.join("tools")).unwrap();
    for number in 0..200 {
        let tool = format!(
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: t{number}}}\nspec: {{entry: 'builtin:wait'}}\n"
        );
        fs::write(watched.project.join(format!("tools/t{number}.yaml")), tool).unwrap();
    }
    let mut added = 0;
    while added < 200 {
        // A file that was just being written is a broken edit like any other.
        added += watched.reload().await.plan.added.len();
    }
    assert_eq!(added, 200);
}

/// Files that have to come to rest would do so only after the test has given up.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_whole_is_taken_up_at_once() {
    let mut watched = Watched::start(
        WatchOptions {
            settle: 2 * LIMIT,
            ..listening()
        },
        "state",
    )
    .await;
    say(&watched.project.join("words/script.yaml"), "second");
    let outcome = watched.reload().await;
    assert_eq!(
        (outcome.result, watched.ask().await.as_str()),
        (Ok(2), "second")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn half_of_a_file_is_no_failure_before_it_has_come_to_rest() {
    let settle = Duration::from_secs(2);
    let mut watched = Watched::start(
        WatchOptions {
            settle,
            ..listening()
        },
        "state",
    )
    .await;
    let script = watched.project.join("words/script.yaml");
    fs::write(&script, "default: {text: ").unwrap();
    // Long enough for a load, and not for a rest.
    tokio::time::sleep(settle / 4).await;
    say(&script, "second");
    assert_eq!(watched.reload().await.result, Ok(2));
    fs::write(&script, "default: {text: ").unwrap();
    assert!(watched.reload().await.result.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_system_files_are_looked_at() {
    let options = WatchOptions {
        listen: false,
        poll: Duration::from_millis(50),
        ..WatchOptions::default()
    };
    let mut watched = Watched::start(options, "state").await;
    say(&watched.project.join("words/script.yaml"), "second");
    watched.until("second").await;
    lay_out(&watched.project, "third");
    watched.until("third").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_agents_and_the_swarm_itself_write_is_no_edit() {
    // The state root lies in the project, and the agent works in it.
    let mut watched = Watched::start(listening(), "project/state").await;
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
    watched.ask().await;
    say(&watched.project.join("words/script.yaml"), "second");
    let outcome = watched.reload().await;
    assert_eq!(
        (outcome.result.unwrap(), outcome.plan.changed),
        (2, vec!["Model/m".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_below_the_state_root_is_watched() {
    let mut watched = Watched::start(listening(), ".").await;
    say(&watched.project.join("words/script.yaml"), "second");
    watched.until("second").await;
}

/// Secrets that are kept in files count for a comparison, and for a reload, as they did at the start.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_a_file_is_the_same_at_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let (project, secrets) = (folder.path().join("project"), folder.path().join("secrets"));
    lay_out(&project, "first");
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

/// A Tool whose export takes `keys`, in that order.
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
async fn what_is_kept_from_one_generation_to_the_next_is_what_did_not_change() {
    let mut watched = Watched::start(listening(), "state").await;
    let project = watched.project.clone();
    let write = |name: &str, keys| {
        fs::write(project.join(format!("tools/{name}.yaml")), tool(name, keys)).unwrap()
    };
    fs::create_dir(project.join("tools")).unwrap();
    write("one", ["seconds", "a"]);
    write("two", ["seconds", "a"]);
    let uses = "[{ref: Tool/one}, {ref: Tool/two}]";
    fs::write(
        project.join("goondan.yaml"),
        BUNDLE.replace("[{ref: Tool/file-system}]", uses),
    )
    .unwrap();
    let shown = |swarm: &Swarm| {
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
    while shown(&watched.swarm)
        != [
            format!("one__seconds {before}"),
            format!("two__seconds {before}"),
        ]
    {
        drop(watched.reload().await);
    }
    // Equal but for the order, which a model is shown.
    write("two", ["a", "seconds"]);
    while shown(&watched.swarm)
        != [
            format!("one__seconds {before}"),
            format!("two__seconds {after}"),
        ]
    {
        drop(watched.reload().await);
    }
    assert_eq!(watched.ask().await, "first");
}
