//! Log lines of `Extension/logging`, captured by a `tracing` subscriber.
use std::io;
use std::sync::{Arc, Mutex};

use goondan::spec::Environment;
use goondan::{Input, Swarm};

const PROJECT: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: scripted
  model: any
  options:
    agents:
      assistant:
        - calls: [{id: c1, tool: text-transform__case, args: {text: hi, to: upper}}, {id: c2, tool: nope__nope, args: {}}]
        - text: done
        - error: {status: 400, message: no more}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: assistant}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/text-transform}]
  extensions: [{ref: Extension/logging, config: CONFIG}]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/assistant, agents: [{ref: Agent/assistant}]}
"#;

#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogBuffer {
    /// Returns the lines of the extension without their target.
    fn agent_lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines()
            .filter(|line| line.contains(" gdn::agent: "))
            .map(|line| line.replace(" gdn::agent:", ""))
            .collect()
    }
}

/// Runs two turns, of which the second one fails, and returns their log lines.
async fn log_lines(config: &str) -> Vec<String> {
    let lines = LogBuffer::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    // The tasks of a swarm run on this thread.
    let _guard = tracing::subscriber::set_default(subscriber);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("goondan.yaml"),
        PROJECT.replace("CONFIG", config),
    )
    .unwrap();
    let project = goondan::load(folder.path());
    assert_eq!(project.diagnostics, []);
    let state = tempfile::tempdir().unwrap();
    let builder = Swarm::builder(project.bundle.unwrap())
        .state_root(state.path())
        .environment(Environment::default());
    let swarm = builder.start().await.unwrap();
    for id in ["evt-1", "evt-2"] {
        let input = Input {
            id: Some(id.to_owned()),
            ..Input::text("go")
        };
        swarm.send(input).await.unwrap().result().await.unwrap();
    }
    swarm.shutdown().await;
    lines.agent_lines()
}

#[tokio::test]
async fn the_debug_level_logs_turns_steps_and_tool_calls() {
    let lines =
        log_lines("{level: debug, includeToolArgs: true, includeTurnMetadata: false}").await;
    let text = lines.join("\n");
    let order = [
        " INFO turn started instance=assistant:main turn=\"turn-1\"",
        " INFO step started instance=assistant:main step=\"turn-1-step-0\"",
        "DEBUG tool called instance=assistant:main tool=\"text-transform__case\" call=\"c1\" arguments=\"{\\\"text\\\":\\\"hi\\\",",
        "DEBUG tool completed instance=assistant:main tool=\"text-transform__case\" call=\"c1\"",
        " INFO step completed instance=assistant:main step=\"turn-1-step-0\" calls=2",
        " INFO turn completed instance=assistant:main turn=\"turn-1\" reason=TextResponse steps=2",
        "ERROR step failed instance=assistant:main step=\"turn-2-step-0\" code=\"E_MODEL_STATUS\"",
        "ERROR turn failed instance=assistant:main turn=\"turn-2\" code=\"E_MODEL_STATUS\"",
    ];
    let positions: Vec<Option<usize>> = order.iter().map(|line| text.find(line)).collect();
    assert!(
        positions.iter().all(Option::is_some) && positions.is_sorted(),
        "{positions:?}\n{text}"
    );
    assert!(
        text.contains("ERROR tool failed instance=assistant:main tool=\"nope__nope\" call=\"c2\""),
        "{text}"
    );
}

#[tokio::test]
async fn the_error_level_logs_only_failures() {
    let lines = log_lines("{level: error}").await;
    assert!(
        lines.iter().all(|line| line.starts_with("ERROR")),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 3, "{lines:?}");
}

#[tokio::test]
async fn the_default_config_logs_the_turn_source_and_no_arguments() {
    let text = log_lines("{}").await.join("\n");
    assert!(
        text.contains("event=evt-1 type=user.input from=outside trace="),
        "{text}"
    );
    assert!(
        !text.contains("tool called") && !text.contains("upper"),
        "{text}"
    );
}
