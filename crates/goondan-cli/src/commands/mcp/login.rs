//! `gdn mcp login`, `gdn mcp logout`.

use std::io::BufRead;
use std::net::Ipv4Addr;

use clap::Args;
use goondan::StateRoot;
use goondan::inside::shown;
use goondan::mcp::Visitor;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{Place, Servers, failed};
use crate::commands::browser;
use crate::complete;
use crate::exit::CliError;
use crate::output::{Output, style};

/// The path that a browser is sent back to.
const BACK: &str = "/callback";

/// What it shows then.
const DONE: &str =
    "<!doctype html><title>gdn</title><p>You can close this page and go back to gdn.";

#[derive(Debug, Args)]
pub(super) struct LoginArgs {
    /// The Tool with the server
    #[arg(value_name = "NAME", add = complete::servers())]
    name: String,
    #[command(flatten)]
    place: Place,
    /// Print the address of the page instead of opening a browser
    #[arg(long)]
    no_browser: bool,
}

#[derive(Debug, Args)]
pub(super) struct LogoutArgs {
    /// The Tool with the server
    #[arg(value_name = "NAME", add = complete::servers())]
    name: String,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(
    args: &LoginArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let servers = Servers::of(&args.place, true, state_root, output).await?;
    let tool = servers.find(&args.name)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    let browser = Browser {
        listener,
        port,
        opens: !args.no_browser,
        output,
    };
    servers
        .tools
        .login(tool, servers.bundle.root(), &browser)
        .await
        .map_err(failed)?;
    let good = style::GOOD;
    output.line(&format!(
        "{good}Logged in{good:#} to the server of {}.",
        shown::line(&tool.id)
    ))
}

pub(super) async fn forget(
    args: &LogoutArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let servers = Servers::of(&args.place, false, state_root, output).await?;
    let tool = servers.find(&args.name)?;
    let was_there = servers
        .tools
        .logout(tool, servers.bundle.root())
        .map_err(failed)?;
    let words = if was_there {
        "Logged out of"
    } else {
        "Nobody was logged in to"
    };
    output.line(&format!("{words} the server of {}.", shown::line(&tool.id)))
}

/// The browser of whoever sits here, or one elsewhere, whose owner copies what it ends at.
struct Browser<'o> {
    listener: TcpListener,
    port: u16,
    opens: bool,
    output: &'o Output,
}

#[async_trait::async_trait]
impl Visitor for Browser<'_> {
    fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{BACK}", self.port)
    }

    async fn visit(&self, page: &str) -> Result<String, String> {
        let told = self.output.explain(&format!(
            "Log in on this page:\n\n  {}\n",
            shown::line(page)
        ));
        told.map_err(|error| error.message)?;
        if self.opens {
            browser::open(page);
        }
        if Output::stdin_is_terminal() {
            let port = self.port;
            let hint = format!(
                "A browser on another machine ends at an address that begins with http://127.0.0.1:{port}: paste it here."
            );
            self.output.explain(&hint).map_err(|error| error.message)?;
        }
        tokio::select! {
            back = self.wait(state_of(page)) => back.map_err(|error| error.to_string()),
            pasted = pasted() => Ok(pasted),
        }
    }
}

impl Browser<'_> {
    /// Waits until a browser is sent back here.
    async fn wait(&self, state: Option<String>) -> std::io::Result<String> {
        loop {
            let (client, _) = self.listener.accept().await?;
            // What goes wrong with one client is that client's to notice.
            if let Ok(Some(target)) = answer(client, state.as_deref()).await {
                return Ok(format!("http://127.0.0.1:{}{target}", self.port));
            }
        }
    }
}

/// What the page gives back, so that nobody else can end a login.
fn state_of(address: &str) -> Option<String> {
    let (_, query) = address.split_once('?')?;
    query
        .split(['&', '#'])
        .find_map(|field| field.strip_prefix("state="))
        .map(str::to_owned)
}

/// Answers a request; the target, where it is the one that is waited for.
async fn answer(client: TcpStream, state: Option<&str>) -> std::io::Result<Option<String>> {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    let reading = tokio::time::timeout(
        std::time::Duration::from_secs(5),
        client.read_line(&mut line),
    );
    reading
        .await
        .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))?;
    let is_ours = |target: &&str| {
        target.starts_with(&format!("{BACK}?")) && state_of(target).as_deref() == state
    };
    let target = line.split(' ').nth(1).filter(is_ours).map(str::to_owned);
    let (status, body) = if target.is_some() {
        ("200 OK", DONE)
    } else {
        ("404 Not Found", "")
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    client
        .get_mut()
        .write_all(format!("{head}{body}").as_bytes())
        .await?;
    Ok(target)
}

/// A line that somebody types, where somebody can.
async fn pasted() -> String {
    if !Output::stdin_is_terminal() {
        return std::future::pending().await;
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // It may wait for ever, and ends with the program.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        if read.is_ok_and(|count| count > 0) {
            let _ = sender.send(line.trim().to_owned());
        }
    });
    match receiver.await {
        Ok(line) => line,
        Err(_) => std::future::pending().await,
    }
}
