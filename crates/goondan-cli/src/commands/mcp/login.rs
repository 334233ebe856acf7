//! `gdn mcp login`, `gdn mcp logout`.

use std::io::BufRead;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::Args;
use goondan::StateRoot;
use goondan::internal::untrusted_text;
use goondan::mcp::ConsentBrowser;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{McpTargetArgs, ProjectMcpServers, server_error};
use crate::commands::browser;
use crate::complete;
use crate::exit::CliError;
use crate::output::{CommandOutput, style};

/// Path of the redirect URI.
const REDIRECT_PATH: &str = "/callback";

/// Page shown after the redirect.
const REDIRECT_PAGE: &str =
    "<!doctype html><title>gdn</title><p>You can close this page and return to gdn.";

#[derive(Debug, Args)]
pub(super) struct McpLoginArgs {
    /// Name of the Tool resource that defines the server
    #[arg(value_name = "NAME", add = complete::servers())]
    name: String,
    #[command(flatten)]
    target: McpTargetArgs,
    /// Print the login URL instead of opening a browser
    #[arg(long)]
    no_browser: bool,
}

#[derive(Debug, Args)]
pub(super) struct McpLogoutArgs {
    /// Name of the Tool resource that defines the server
    #[arg(value_name = "NAME", add = complete::servers())]
    name: String,
    #[command(flatten)]
    target: McpTargetArgs,
}

/// Logs in to the server of a Tool with a browser.
pub(super) async fn run(
    args: &McpLoginArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let servers = ProjectMcpServers::of(&args.target, true, state_root, output).await?;
    let tool = servers.find(&args.name)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    let page_file = state_root.0.join(format!("login-{port}.html"));
    let browser = LoginBrowser {
        listener,
        port,
        page_file: (!args.no_browser).then(|| page_file.clone()),
        output,
    };
    let root = servers.bundle.root();
    let done = servers.tools.login(tool, root, &browser).await;
    let _ = std::fs::remove_file(page_file);
    done.map_err(server_error)?;
    let good = style::GOOD;
    output.line(&format!(
        "{good}Logged in{good:#} to the server of {}.",
        untrusted_text::line(&tool.id)
    ))
}

/// Logs out of the server of a Tool and deletes its tokens.
pub(super) async fn forget(
    args: &McpLogoutArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let servers = ProjectMcpServers::of(&args.target, false, state_root, output).await?;
    let tool = servers.find(&args.name)?;
    let was_logged_in = servers
        .tools
        .logout(tool, servers.bundle.root())
        .map_err(server_error)?;
    let outcome = if was_logged_in {
        "Logged out of"
    } else {
        "Was not logged in to"
    };
    output.line(&format!(
        "{outcome} the server of {}.",
        untrusted_text::line(&tool.id)
    ))
}

/// Browser for a login.
/// For a browser on another machine, the user pastes the URL of the final page.
struct LoginBrowser<'o> {
    listener: TcpListener,
    port: u16,
    /// Page that passes the login URL to a browser; `None` if no browser is opened.
    page_file: Option<PathBuf>,
    output: &'o CommandOutput,
}

#[async_trait::async_trait]
impl ConsentBrowser for LoginBrowser<'_> {
    fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{REDIRECT_PATH}", self.port)
    }

    /// Shows the login page, and returns the URL to which it redirects. A browser on this machine
    /// reaches our listener; the user can also paste the URL.
    async fn visit(&self, page: &str) -> Result<String, String> {
        let printed = self.output.explain(&format!(
            "Log in on this page:\n\n  {}\n",
            untrusted_text::line(page)
        ));
        printed.map_err(|error| error.message)?;
        if let Some(file) = &self.page_file
            && let Err(error) = browser::open(page, file)
        {
            tracing::debug!(%error, "could not open a browser");
        }
        if CommandOutput::stdin_is_terminal() {
            let port = self.port;
            let hint = format!(
                "If the browser runs on another machine, paste the URL of its last page here. It \
                    begins with http://127.0.0.1:{port}."
            );
            self.output.explain(&hint).map_err(|error| error.message)?;
        }
        tokio::select! {
            redirected = self.wait_for_redirect(state_of(page)) => redirected.map_err(|error| error.to_string()),
            // Never completes without a terminal.
            pasted = pasted_url() => Ok(pasted),
        }
    }
}

impl LoginBrowser<'_> {
    /// Waits until a browser is redirected to our listener, and returns the redirect's URL.
    async fn wait_for_redirect(&self, state: Option<String>) -> std::io::Result<String> {
        loop {
            let (client, _) = self.listener.accept().await?;
            // An error of one connection concerns only its client.
            if let Ok(Some(target)) = answer_request(client, state.as_deref()).await {
                return Ok(format!("http://127.0.0.1:{}{target}", self.port));
            }
        }
    }
}

/// Returns the `state` parameter, which proves that a redirect belongs to this login.
fn state_of(address: &str) -> Option<String> {
    let (_, query) = address.split_once('?')?;
    query
        .split(['&', '#'])
        .find_map(|field| field.strip_prefix("state="))
        .map(str::to_owned)
}

/// Answers an HTTP request. Returns the request target of the expected redirect, or `None` for any
/// other request.
async fn answer_request(client: TcpStream, state: Option<&str>) -> std::io::Result<Option<String>> {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    let reading = tokio::time::timeout(
        std::time::Duration::from_secs(5),
        client.read_line(&mut line),
    );
    reading
        .await
        .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))?;
    let is_expected = |target: &&str| {
        target.starts_with(&format!("{REDIRECT_PATH}?")) && state_of(target).as_deref() == state
    };
    let target = line
        .split(' ')
        .nth(1)
        .filter(is_expected)
        .map(str::to_owned);
    let (status, body) = if target.is_some() {
        ("200 OK", REDIRECT_PAGE)
    } else {
        ("404 Not Found", "")
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: \
        {length}\r\n\r\n"
    );
    client
        .get_mut()
        .write_all(format!("{head}{body}").as_bytes())
        .await?;
    Ok(target)
}

/// Waits until the user pastes a URL at the terminal. Never completes without a terminal.
async fn pasted_url() -> String {
    if !CommandOutput::stdin_is_terminal() {
        return std::future::pending().await;
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // The read may block forever; the thread ends with the process.
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
