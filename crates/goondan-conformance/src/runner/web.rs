//! Local web server for the pages of a test case.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::case::WebPageFixture;

/// Read and write timeout of a client.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a request in bytes. The rest is cut off.
const MAX_REQUEST_BYTES: u64 = 1 << 20;

/// A running server. Dropping it ends the server.
#[derive(Debug)]
pub(crate) struct WebServer {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WebServer {
    /// Starts a server on a free port of the loopback address.
    pub(crate) fn start(pages: BTreeMap<String, WebPageFixture>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (address, ending) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&ending);
        let thread = std::thread::Builder::new()
            .name("pages".to_owned())
            .spawn(move || {
                for client in listener.incoming() {
                    if ends.load(Ordering::Acquire) {
                        return;
                    }
                    // An error of one connection is visible to its client.
                    let _ = client.and_then(|client| serve_request(client, &pages));
                }
            })?;
        Ok(WebServer {
            address,
            ending,
            thread: Some(thread),
        })
    }

    /// Returns the values for `${web.url}` and `${web.port}`.
    pub(crate) fn template_values(&self) -> Value {
        json!({"url": format!("http://{}", self.address), "port": self.address.port()})
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        // A connection wakes the server's accept loop. If it fails, the server has ended.
        if TcpStream::connect(self.address).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// The parts of a request that are used.
struct WebRequest {
    method: String,
    path: String,
    body: String,
}

/// Answers one request and closes the connection.
fn serve_request(
    mut client: TcpStream,
    pages: &BTreeMap<String, WebPageFixture>,
) -> io::Result<()> {
    client.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    client.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let Some(request) = read(&client)? else {
        return Ok(());
    };
    let (status, headers, body) = match pages.get(&request.path) {
        Some(page) if page.echo => (page.status, page.headers.clone(), request.to_json()),
        Some(page) => (page.status, page.headers.clone(), page.body.clone()),
        None => (
            404,
            BTreeMap::new(),
            format!("there is no page {}", request.path),
        ),
    };
    let mut answer = format!(
        "HTTP/1.1 {status} -\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in &headers {
        answer.push_str(&format!("{name}: {value}\r\n"));
    }
    answer.push_str("\r\n");
    if request.method != "HEAD" {
        answer.push_str(&body);
    }
    client.write_all(answer.as_bytes())
}

/// Reads one request; `None` if the client closes the connection first.
fn read(client: &TcpStream) -> io::Result<Option<WebRequest>> {
    let mut input = BufReader::new(client.take(MAX_REQUEST_BYTES));
    let mut line = String::new();
    input.read_line(&mut line)?;
    let mut words = line.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(None);
    };
    let path = target.split('?').next().unwrap_or_default();
    let mut request = WebRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        body: String::new(),
    };
    let mut length = 0;
    loop {
        let mut header = String::new();
        if input.read_line(&mut header)? <= 2 {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body)?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(request))
}

impl WebRequest {
    /// Converts the request to the JSON that a reply can echo.
    fn to_json(&self) -> String {
        json!({"method": self.method, "path": self.path, "body": self.body}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send_request(server: &WebServer, request: &str) -> String {
        let mut client = TcpStream::connect(server.address).expect("a connection");
        client
            .write_all(request.as_bytes())
            .expect("a sent request");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        answer
    }

    #[test]
    fn fixture_pages_are_served_and_other_paths_return_404() {
        let page = |value| serde_json::from_value::<WebPageFixture>(value).expect("a page");
        let pages = BTreeMap::from([
            (
                "/a".to_owned(),
                page(json!({"status": 201, "headers": {"x": "y"}, "body": "hi"})),
            ),
            ("/e".to_owned(), page(json!({"echo": true}))),
        ]);
        let server = WebServer::start(pages).expect("a free port");
        let answer = send_request(&server, "GET /a?b=c HTTP/1.1\r\n\r\n");
        assert_eq!(
            answer,
            "HTTP/1.1 201 -\r\nconnection: close\r\ncontent-length: 2\r\nx: y\r\n\r\nhi"
        );
        assert!(send_request(&server, "GET /b HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        let echo = send_request(&server, "POST /e HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody");
        assert!(
            echo.ends_with(r#"{"method":"POST","path":"/e","body":"body"}"#),
            "{echo}"
        );
        assert_eq!(send_request(&server, "\r\n\r\n"), "");
    }
}
