//! The local control endpoint, which only commands of the same user can use.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::projects::{ECHO, manifest, scripted};
use crate::serve::ServeProcess;

fn control_file(serving: &ServeProcess) -> PathBuf {
    serving.token_file.with_file_name("control.json")
}

#[test]
fn the_control_endpoint_is_a_socket_and_its_token_is_masked() {
    let sandbox = scripted(ECHO);
    let all = manifest(
        "{provider: scripted, model: any, options: {script: script.yaml}}",
        "permissions: {default: allow}",
    );
    sandbox.write("p/goondan.yaml", &all);
    let serving = ServeProcess::start(&sandbox, &[]);
    let file = control_file(&serving);
    let control: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let socket = control["socket"].as_str().unwrap();
    assert_eq!(control.get("address"), None);
    assert!(file.with_file_name(socket).exists(), "{socket}");
    let command = format!(
        "cat '{}' '{}'",
        file.display(),
        serving.token_file.display()
    );
    let args = json!({ "command": command }).to_string();
    let called = sandbox.gdn(&["tool", "call", "-p", "p", "bash__exec", "--args", &args]);
    assert_eq!(called.code, 0, "{}", called.stderr);
    assert!(called.stdout.contains("***"), "{}", called.stdout);
    for token in [control["token"].as_str().unwrap(), &serving.token] {
        assert!(!called.stdout.contains(token), "{}", called.stdout);
    }
    let socket = file.with_file_name(socket);
    serving.signal("TERM");
    serving.end();
    assert!(!socket.exists() && !file.exists());
}

#[test]
fn studio_relays_another_process_until_that_process_ends() {
    let sandbox = scripted(ECHO);
    let serving = ServeProcess::start(&sandbox, &[]);
    let mut studio = sandbox
        .command(&["studio", "p", "--no-open", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(studio.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let shown: Value = serde_json::from_str(&line).unwrap();
    let address = shown["url"].as_str().unwrap().replace("http://", "");
    let (_, code) = shown["studio"].as_str().unwrap().split_once('=').unwrap();
    let body = json!({ "code": code }).to_string();
    let mut stream = TcpStream::connect(&address).unwrap();
    let request = format!(
        "POST /api/studio/sessions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 201"), "{response}");
    serving.signal("TERM");
    serving.end();
    assert_eq!(studio.wait().unwrap().code(), Some(0));
}
