//! A bot whose process is killed between a message and its answer, with a mock Telegram server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::projects::manifest;
use crate::sandbox::Sandbox;

/// Timeout of a wait for requests, after which the test fails.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Received requests, and messages of users.
#[derive(Default)]
struct Seen {
    calls: Vec<(String, Value)>,
    incoming: Vec<String>,
}

#[derive(Clone)]
struct Telegram {
    address: String,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

impl Telegram {
    fn start() -> Telegram {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let telegram = Telegram {
            address: listener.local_addr().unwrap().to_string(),
            seen: Arc::default(),
        };
        let server = telegram.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || while server.answer(&stream).is_some() {});
            }
        });
        telegram
    }

    /// Queues a message of a user for the bot.
    fn write(&self, text: &str) {
        self.seen.0.lock().unwrap().incoming.push(text.to_owned());
        self.seen.1.notify_all();
    }

    /// Waits until the calls of the method meet the condition. Returns their bodies.
    fn wait_for_calls(&self, method: &str, condition: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let of_method = |seen: &Seen| -> Vec<Value> {
            seen.calls
                .iter()
                .filter(|(name, _)| name == method)
                .map(|(_, body)| body.clone())
                .collect()
        };
        let seen = self.seen.0.lock().unwrap();
        let (seen, late) = self
            .seen
            .1
            .wait_timeout_while(seen, TIMEOUT, |seen| !condition(&of_method(seen)))
            .unwrap();
        assert!(!late.timed_out(), "{:?}", seen.calls);
        of_method(&seen)
    }

    /// Answers one request. Returns `None` when the client has disconnected.
    fn answer(&self, mut stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let method = line.split(' ').nth(1)?.rsplit('/').next()?.to_owned();
        loop {
            line.clear();
            reader.read_line(&mut line).ok()?;
            match line.trim().to_ascii_lowercase().split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().ok()?,
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let result = self.result(&method, &body);
        let text = json!({"ok": true, "result": result}).to_string();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        )
        .ok()
    }

    fn result(&self, method: &str, body: &Value) -> Value {
        let mut seen = self.seen.0.lock().unwrap();
        seen.calls.push((method.to_owned(), body.clone()));
        self.seen.1.notify_all();
        if method != "getUpdates" {
            return json!({"message_id": seen.calls.len()});
        }
        let offset = usize::try_from(body["offset"].as_u64().unwrap_or_default()).unwrap();
        let more = |seen: &mut Seen| seen.incoming.len() < offset.max(1);
        let (seen, _) = self
            .seen
            .1
            .wait_timeout_while(seen, Duration::from_secs(1), more)
            .unwrap();
        let update = |(number, text): (usize, &String)| {
            json!({"update_id": number + 1, "message": {
                "message_id": number + 1, "text": text, "chat": {"id": 7, "type": "private"},
                "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
            }})
        };
        seen.incoming
            .iter()
            .enumerate()
            .filter(|(number, _)| number + 1 >= offset)
            .map(update)
            .collect()
    }
}

/// A `gdn serve` that is ready. Dropping it sends SIGKILL, as the kernel does when memory runs out.
struct ServeProcess(Child);

impl ServeProcess {
    fn start(sandbox: &Sandbox) -> ServeProcess {
        let mut command = sandbox.command(&["serve", "p", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains("url"), "{line}");
        ServeProcess(child)
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        // On Unix this is signal 9.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_message_is_answered_once_after_kills_before_the_answer() {
    let telegram = Telegram::start();
    let sandbox = Sandbox::new();
    let swarm = manifest(
        "{provider: scripted, model: any, options: {script: script.yaml}}",
        "",
    );
    let connection = format!(
        "---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: \
         Connector/telegram\n  config: {{apiBaseUrl: {{value: 'http://{}'}}}}\n  secrets: {{botToken: {{value: '123:abc'}}}}\n  \
         allow: {{senders: ['7']}}\n",
        telegram.address
    );
    sandbox.write("p/goondan.yaml", &format!("{swarm}{connection}"));
    sandbox.write("p/script.yaml", "default: {text: late, delayMs: 600000}\n");
    telegram.write("hi");
    for _ in 0..3 {
        let serving = ServeProcess::start(&sandbox);
        // The bot has confirmed the message, and the model has not answered yet.
        let confirmed = |calls: &[Value]| calls.iter().any(|call| call["offset"] == 2);
        telegram.wait_for_calls("getUpdates", confirmed);
        drop(serving);
        let mut seen = telegram.seen.0.lock().unwrap();
        assert!(!seen.calls.iter().any(|(method, _)| method == "sendMessage"));
        // The next process fetches the message again.
        seen.calls.clear();
    }
    sandbox.write("p/script.yaml", "default: {text: 'heard {{ last }}'}\n");
    let _serving = ServeProcess::start(&sandbox);
    let texts = |calls: &[Value]| {
        calls
            .iter()
            .map(|call| call["text"].clone())
            .collect::<Vec<_>>()
    };
    telegram.wait_for_calls("sendMessage", |calls| !calls.is_empty());
    telegram.write("more");
    let sent = telegram.wait_for_calls("sendMessage", |calls| {
        texts(calls).contains(&json!("heard more"))
    });
    assert_eq!(texts(&sent), ["heard hi", "heard more"]);
}
