//! Connectors that are files. These tests need Node.js and Python, and say so where they are missing.
#![cfg(unix)]

use std::process::Command;

use goondan_connect::{ConnectionOptions, ConnectionState};

use crate::cli::console;
use crate::support::{Running, within};

#[allow(clippy::print_stderr, reason = "it says why a test is skipped")]
fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("skipped: there is no {program}");
    }
    is_there
}

/// A Connector in `file`, and a Connection to it of the same name.
fn connection(name: &str, file: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connector\nmetadata: {{name: {name}}}\nspec: {{entry: ./{file}, events: [{{name: \
         order}}]}}\n---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: {name}}}\nspec:\n  connectorRef: \
         Connector/{name}\n  config: {{greeting: {{value: hello}}}}\n  secrets: {{key: {{value: s3cr3t}}}}\n  ingress: {{rules: \
         [{{match: {{event: order}}, route: {{instanceKeyProperty: table, instanceKeyPrefix: \"table:\"}}}}]}}\n"
    )
}

/// The same event comes twice under one id; others have none. What the process sees is an event, too.
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
async fn a_file_hands_events_in_once_each_and_in_order() {
    if !has("node") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let text = connection("orders", "orders.mjs");
    let running = Running::start_with(
        state.path(),
        &text,
        &[("orders.mjs", ORDERS)],
        ConnectionOptions::default(),
    )
    .await;
    let heard = running.answered("table:4", 6).await;
    assert_eq!(
        heard,
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
        running.look("orders").status.unwrap().state,
        ConnectionState::Running
    );
}

#[tokio::test]
async fn one_in_python_reads_what_is_typed_and_ends() {
    if !has("python3") {
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
    let running = Running::start_with(state.path(), &text, &[("typed.py", program)], options).await;
    assert_eq!(running.answered("table:5", 2).await, ["tea", "cake"]);
    running
        .until("typed", |look| {
            look.status
                .as_ref()
                .is_some_and(|status| status.state == ConnectionState::Stopped)
        })
        .await;
}

#[tokio::test]
async fn one_that_ends_again_and_again_disturbs_nobody() {
    if !has("node") {
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
    let running =
        Running::start_with(state.path(), &text, &files, ConnectionOptions::default()).await;
    running
        .until("crash", |look| {
            look.status
                .as_ref()
                .is_some_and(|status| status.state == ConnectionState::Failing)
        })
        .await;
    let why = running.look("crash").status.unwrap().why.unwrap();
    assert!(why.contains("E_HOST_DIED"), "{why}");
    assert_eq!(running.answered("table:4", 6).await.len(), 6);
    assert_eq!(
        running.look("orders").status.unwrap().state,
        ConnectionState::Running
    );
}

#[tokio::test]
async fn an_edit_restarts_it() {
    if !has("node") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let say = |text: &str| {
        format!(
            "export default async (ctx) => {{ await ctx.emit({{ name: 'order', message: '{text}', properties: {{ table: 6 }} \
             }}); await new Promise(() => {{}}); }};"
        )
    };
    let text = connection("say", "say.mjs");
    let running = Running::start_with(
        state.path(),
        &text,
        &[("say.mjs", &say("old"))],
        ConnectionOptions::default(),
    )
    .await;
    assert_eq!(running.answered("table:6", 1).await, ["old"]);
    std::fs::write(running.file("say.mjs"), say("new")).unwrap();
    running.reload(&text).await;
    assert_eq!(within(running.answered("table:6", 2)).await, ["old", "new"]);
}

/// Hands two events in, and writes down the answers; the first that it is given, it can't send.
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
    if !has(program) {
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
        // At the second start, the same events come again: they have been answered.
        let options = ConnectionOptions::default();
        let running =
            Running::start_with(state.path(), &connections, &[(file, text)], options).await;
        running.answered("table:2", 1).await;
        running
            .until("orders", |look| look.owed == 0 && look.failed.len() == 1)
            .await;
        assert_eq!(std::fs::read_to_string(&seen).unwrap(), "1 4: heard tea\n");
        let why = running.look("orders").failed[0].why.clone().unwrap();
        assert!(why.contains("table 3 is gone"), "{why}");
        running.kill().await;
    }
}

#[tokio::test]
async fn a_file_in_javascript_sends_answers() {
    answers("node", "orders.mjs", ANSWERS_JS).await;
}

#[tokio::test]
async fn a_file_in_python_sends_answers() {
    answers("python3", "orders.py", ANSWERS_PY).await;
}
