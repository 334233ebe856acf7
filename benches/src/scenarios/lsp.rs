//! What somebody who types waits for: the language server, driven over its pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use super::Setup;
use crate::figures::{Run, median};
use crate::projects;

/// How often each thing is asked for.
const TIMES: usize = 20;

/// From an edit in one of the files to its diagnostics, and from a question to its answer.
pub(super) fn edits(setup: &Setup, tools: usize) -> anyhow::Result<Run> {
    projects::many_resources(&setup.project, tools)?;
    let file = setup.project.join("goondan.yaml").canonicalize()?;
    let text = std::fs::read_to_string(&file)?;
    let uri = format!("file://{}", file.display());
    let mut editor = Editor::start(setup)?;
    let began = Instant::now();
    let document = json!({ "uri": uri, "languageId": "yaml", "version": 0, "text": text });
    editor.tell("textDocument/didOpen", &json!({ "textDocument": document }))?;
    editor.published(&uri)?;
    let opened = began.elapsed();
    // The first reference to a tool: it is made wrong and right again.
    let at = text.find("Tool/tool-").context("an agent uses a tool")? + "Tool/".len();
    let line = text[..at].matches('\n').count();
    let character = at - text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let place = json!({ "line": line, "character": character });
    let (mut edits, mut completions, mut references) = (Vec::new(), Vec::new(), Vec::new());
    let (mut edits_work, mut completions_work) = (Vec::new(), Vec::new());
    for version in 1..=TIMES {
        let is_wrong = version % 2 == 1;
        let end = json!({ "line": line, "character": character + usize::from(!is_wrong) });
        let change = json!({ "range": { "start": place, "end": end }, "text": if is_wrong { "x" } else { "" } });
        let document = json!({ "uri": uri, "version": version });
        let (worked, began) = (editor.worked()?, Instant::now());
        editor.tell(
            "textDocument/didChange",
            &json!({ "textDocument": document, "contentChanges": [change] }),
        )?;
        let found = editor.published(&uri)?;
        edits.push(began.elapsed());
        edits_work.push(editor.worked()?.saturating_sub(worked));
        anyhow::ensure!(
            found.is_empty() != is_wrong,
            "the diagnostics do not fit: {found:?}"
        );
        let asked = json!({ "textDocument": { "uri": uri }, "position": place });
        let worked = editor.worked()?;
        completions.push(editor.ask("textDocument/completion", &asked)?);
        completions_work.push(editor.worked()?.saturating_sub(worked));
        let context = json!({ "includeDeclaration": true });
        let asked =
            json!({ "textDocument": { "uri": uri }, "position": place, "context": context });
        references.push(editor.ask("textDocument/references", &asked)?);
    }
    editor.end()?;
    Ok(Run::default()
        .millis("opened_to_diagnostics", opened)
        .millis("edit_to_diagnostics", median(edits))
        .millis("completion", median(completions))
        .millis("references", median(references))
        // What other programs take does not count here.
        .millis("edit_to_diagnostics_processor", median(edits_work))
        .millis("completion_processor", median(completions_work)))
}

/// A client that knows what it waits for.
struct Editor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u32,
}

impl Editor {
    fn start(setup: &Setup) -> anyhow::Result<Self> {
        let mut child = setup
            .gdn
            .command(&["lsp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut editor = Editor {
            child,
            input,
            output,
            next: 0,
        };
        editor.ask(
            "initialize",
            &json!({ "processId": null, "rootUri": null, "capabilities": {} }),
        )?;
        editor.tell("initialized", &json!({}))?;
        Ok(editor)
    }

    fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        let body = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{body}", body.len())?;
        Ok(self.input.flush()?)
    }

    fn receive(&mut self) -> anyhow::Result<Value> {
        let mut header = String::new();
        self.output.read_line(&mut header)?;
        let length = header
            .trim()
            .strip_prefix("Content-Length: ")
            .context("a message has a length")?
            .parse()?;
        self.output.read_line(&mut header)?;
        let mut body = vec![0; length];
        self.output.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }

    fn tell(&mut self, method: &str, params: &Value) -> anyhow::Result<()> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    /// How long the answer took.
    fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Duration> {
        self.next += 1;
        let id = self.next;
        let began = Instant::now();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let message = self.receive()?;
            if message["id"] == id {
                anyhow::ensure!(message.get("result").is_some(), "{method}: {message}");
                return Ok(began.elapsed());
            }
        }
    }

    /// The next diagnostics of a file.
    fn published(&mut self, uri: &str) -> anyhow::Result<Vec<Value>> {
        loop {
            let mut message = self.receive()?;
            if message["method"] == "textDocument/publishDiagnostics"
                && message["params"]["uri"] == uri
            {
                return Ok(serde_json::from_value(
                    message["params"]["diagnostics"].take(),
                )?);
            }
        }
    }

    /// How long the server has had a processor.
    fn worked(&self) -> anyhow::Result<Duration> {
        let mut nanos = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))
            .context("only Linux tells")?
        {
            let told = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            nanos += told
                .split_whitespace()
                .next()
                .context("a time")?
                .parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    fn end(mut self) -> anyhow::Result<()> {
        self.ask("shutdown", &Value::Null)?;
        self.tell("exit", &Value::Null)?;
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "gdn lsp ended with {status}");
        Ok(())
    }
}
