//! Connectors in script files. Tests are skipped with a notice if Node.js or Python is missing.
#![cfg(unix)]

use std::process::Command;

use goondan_connect::{ConnectionOptions, ConnectionState};

use crate::cli::console;
use crate::support::{TestRuntime, with_timeout};

#[allow(
    clippy::print_stderr,
    reason = "the message explains why a test is skipped"
)]
fn is_installed(program: &str) -> bool {
    let is_found = Command::new(program).arg("--version").output().is_ok();
    if !is_found {
        eprintln!("skipped: there is no {program}");
    }
    is_found
}

/// Returns a Connector in `file` and a Connection to it with the same name.
fn connection(name: &str, file: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connector\nmetadata: {{name: {name}}}\nspec: {{entry: ./{file}, events: [{{name: \
         order}}]}}\n---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: {name}}}\nspec:\n  connectorRef: \
         Connector/{name}\n  config: {{greeting: {{value: hello}}}}\n  secrets: {{key: {{value: s3cr3t}}}}\n  ingress: {{rules: \
         [{{match: {{event: order}}, route: {{instanceKeyProperty: table, instanceKeyPrefix: \"table:\"}}}}]}}\n"
    )
}

/// Submits an event twice with one id, events without ids, and an event with the config and secrets
/// that the process sees.
const ORDERS: &str = "
export default async function (ctx) {
  const emit = (text, id) => ctx.emit({ name: 'order', id, message: { type: 'text', text }, properties: { table: '4' }, instanceKey: 'x' });
  await emit('tea', 'one');
  await emit('tea', 'one');
  await Promise.all(['a', 'b', 'c'].map((text) => emit(text)));
  await emit(`${ctx.config.greeting} ${ctx.secrets.key} ${Object.values(process.env).includes('s3cr3t')}`);
  try {
    await ctx.emit({ name: 'order' });
  } catch (error) {
    await emit(`refused ${error.code}`);
  }
  await new Promise(() => {});
}
";

#[tokio::test]
async fn a_javascript_file_submits_events_once_and_in_order() {
    if !is_installed("node") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let text = connection("orders", "orders.mjs");
    let runtime = TestRuntime::start_with(
        state.path(),
        &text,
        &[("orders.mjs", ORDERS)],
        ConnectionOptions::default(),
    )
    .await;
    let messages = runtime.wait_for_answers("table:4", 6).await;
    assert_eq!(
        messages,
        [
            "tea",
            "a",
            "b",
            "c",
            "hello s3cr3t false",
            "refused E_CONNECTOR_EVENT"
        ]
    );
    assert_eq!(
        runtime.snapshot("orders").status.unwrap().state,
        ConnectionState::Running
    );
}

#[tokio::test]
async fn a_python_file_reads_console_lines_and_stops() {
    if !is_installed("python3") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let program = "import sys\n\ndef run(ctx):\n    for line in sys.stdin:\n        ctx.emit({'name': 'order', 'message': \
                   line.strip(), 'properties': {'table': 5}})\n";
    let (console, _seen) = console(&["tea", "cake"]);
    let options = ConnectionOptions {
        console: Some(console),
        ..ConnectionOptions::default()
    };
    let text = connection("typed", "typed.py");
    let runtime =
        TestRuntime::start_with(state.path(), &text, &[("typed.py", program)], options).await;
    assert_eq!(
        runtime.wait_for_answers("table:5", 2).await,
        ["tea", "cake"]
    );
    runtime
        .wait_until("typed", |snapshot| {
            snapshot
                .status
                .as_ref()
                .is_some_and(|status| status.state == ConnectionState::Stopped)
        })
        .await;
}

#[tokio::test]
async fn a_crashing_file_does_not_affect_other_connections() {
    if !is_installed("node") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let crash = "export default () => { setTimeout(() => process.exit(3), 10); return new Promise(() => {}); };";
    let text = format!(
        "{}---\n{}",
        connection("crash", "crash.mjs"),
        connection("orders", "orders.mjs")
    );
    let files = [("crash.mjs", crash), ("orders.mjs", ORDERS)];
    let runtime =
        TestRuntime::start_with(state.path(), &text, &files, ConnectionOptions::default()).await;
    runtime
        .wait_until("crash", |snapshot| {
            snapshot
                .status
                .as_ref()
                .is_some_and(|status| status.state == ConnectionState::Failing)
        })
        .await;
    let why = runtime.snapshot("crash").status.unwrap().why.unwrap();
    assert!(why.contains("E_HOST_DIED"), "{why}");
    assert_eq!(runtime.wait_for_answers("table:4", 6).await.len(), 6);
    assert_eq!(
        runtime.snapshot("orders").status.unwrap().state,
        ConnectionState::Running
    );
}

#[tokio::test]
async fn an_edit_restarts_the_connector_process() {
    if !is_installed("node") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let emitting = |text: &str| {
        format!(
            "export default async (ctx) => {{ await ctx.emit({{ name: 'order', message: '{text}', properties: {{ table: 6 }} \
             }}); await new Promise(() => {{}}); }};"
        )
    };
    let text = connection("say", "say.mjs");
    let runtime = TestRuntime::start_with(
        state.path(),
        &text,
        &[("say.mjs", &emitting("old"))],
        ConnectionOptions::default(),
    )
    .await;
    assert_eq!(runtime.wait_for_answers("table:6", 1).await, ["old"]);
    std::fs::write(runtime.file("say.mjs"), emitting("new")).unwrap();
    runtime.reload(&text).await;
    assert_eq!(
        with_timeout(runtime.wait_for_answers("table:6", 2)).await,
        ["old", "new"]
    );
}

/// Submits three events, and writes their answers to a file. Sending the answer for table 3 fails.
const ANSWERS_JS: &str = "
import { appendFileSync } from 'node:fs';
export default async function (ctx) {
  let count = 0;
  ctx.onReply(async ({ origin, text }) => {
    if (origin.table === 3) throw new Error('table 3 is gone');
    appendFileSync(ctx.config.greeting, `${++count} ${origin.table}: ${text}\n`);
  });
  await ctx.emit({ name: 'order', id: 'a', message: 'tea', properties: { table: '4' }, origin: { table: 4 } });
  await ctx.emit({ name: 'order', id: 'b', message: 'cake', properties: { table: '3' }, origin: { table: 3 } });
  await ctx.emit({ name: 'order', id: 'c', message: 'no way back', properties: { table: '2' } });
  await new Promise(() => {});
}
";

const ANSWERS_PY: &str = "
import asyncio
import itertools

async def run(ctx):
    count = itertools.count(1)

    @ctx.on_reply
    async def send(reply):
        await asyncio.sleep(0)
        if reply['origin']['table'] == 3:
            raise ValueError('table 3 is gone')
        with open(ctx.config['greeting'], 'a') as file:
            file.write('%d %d: %s\\n' % (next(count), reply['origin']['table'], reply['text']))

    await ctx.emit({'name': 'order', 'id': 'a', 'message': 'tea', 'properties': {'table': '4'}, 'origin': {'table': 4}})
    await ctx.emit({'name': 'order', 'id': 'b', 'message': 'cake', 'properties': {'table': '3'}, 'origin': {'table': 3}})
    await ctx.emit({'name': 'order', 'id': 'c', 'message': 'no way back', 'properties': {'table': '2'}})
    await asyncio.Event().wait()
";

async fn answers(program: &str, file: &str, text: &str) {
    if !is_installed(program) {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let seen = state.path().join("seen");
    let connections = connection("orders", file)
        .replace(
            "events: [{name: order}]",
            "answers: true, events: [{name: order}]",
        )
        .replace(
            "{value: hello}",
            &format!("{{value: {:?}}}", seen.display().to_string()),
        );
    for _ in 0..2 {
        // The second start submits the same events again, which were already answered.
        let options = ConnectionOptions::default();
        let runtime =
            TestRuntime::start_with(state.path(), &connections, &[(file, text)], options).await;
        runtime.wait_for_answers("table:2", 1).await;
        runtime
            .wait_until("orders", |snapshot| {
                snapshot.owed == 0 && snapshot.failed.len() == 1
            })
            .await;
        assert_eq!(std::fs::read_to_string(&seen).unwrap(), "1 4: heard tea\n");
        let why = runtime.snapshot("orders").failed[0].why.clone().unwrap();
        assert!(why.contains("table 3 is gone"), "{why}");
        runtime.kill().await;
    }
}

#[tokio::test]
async fn a_javascript_file_sends_answers() {
    answers("node", "orders.mjs", ANSWERS_JS).await;
}

#[tokio::test]
async fn a_python_file_sends_answers() {
    answers("python3", "orders.py", ANSWERS_PY).await;
}
