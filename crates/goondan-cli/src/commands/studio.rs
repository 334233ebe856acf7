//! `gdn studio`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use clap::Args;
use goondan::StateRoot;
use goondan::internal::untrusted_text;
use goondan::spec::Code;
use goondan_serve::client::ClientError;
use goondan_serve::wire::CodeBody;
use serde_json::json;
use tokio::net::TcpListener;

use super::browser;
use super::run::{SignalReceiver, run_with_signals};
use super::serve::{self, ServeArgs};
use super::studio_relay::relay;
use crate::exit::CliError;
use crate::output::CommandOutput;
use crate::project::StartArgs;
use crate::project_path::ProjectPathArg;
use crate::remote::{NotStarted, RemoteSwarm};

/// File in the workspace that passes the studio's URL to a browser.
const REDIRECT_FILE: &str = "studio.html";

const EXAMPLES: &str = "\
Examples:
  gdn studio                      Run this directory's swarm and open its page in a browser
  gdn studio --no-open            Print the URL without opening a browser
  gdn studio --edit               Also let the page change prompts and YAML files
  gdn studio examples/newsroom --port 4748";

/// Arguments of `gdn studio`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StudioArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// Listen on this local port [default: any free port]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    port: u16,
    /// Do not open a browser
    #[arg(long)]
    no_open: bool,
    /// Let the page change files of the project
    #[arg(long)]
    edit: bool,
    #[command(flatten)]
    start: StartArgs,
}

/// Runs the swarm with its studio until a signal arrives.
/// If another process runs the swarm, opens the studio of that process.
pub(crate) async fn run(
    args: StudioArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    run_with_signals(async |signals| run_studio(args, signals, state_root, output).await).await
}

/// Serves the swarm with its studio, or opens the studio of the process that runs the swarm.
async fn run_studio(
    args: StudioArgs,
    signals: SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let opens = !args.no_open && !output.json && CommandOutput::stderr_is_terminal();
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let modes = (opens, args.edit);
    let serving = ServeArgs::for_studio(args.project, listen, modes, args.start);
    match serve::serve(&serving, signals, state_root, output).await {
        Err(NotStarted::Elsewhere(remote, signals)) => {
            if args.edit {
                return Err(no_remote_editor_error(&remote));
            }
            let listener = serve::bind(listen).await?;
            show_remote_studio((&remote, signals), listener, opens, output).await
        }
        ended => Ok(ended?),
    }
}

/// Shows the studio of another process, through its control endpoint, until a signal arrives or
/// that process ends.
async fn show_remote_studio(
    (remote, mut signals): (&RemoteSwarm, SignalReceiver),
    listener: TcpListener,
    opens: bool,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let address = listener.local_addr().map_err(CliError::from)?;
    let mut events = remote.client.events("/api/events?approvals=false").await?;
    print_remote_studio(remote, address, opens, output).await?;
    let mut relay = std::pin::pin!(relay(listener, remote.client.address().clone()));
    loop {
        tokio::select! {
            // The relay never ends by itself.
            () = &mut relay => {}
            event = events.next() => if !matches!(event, Ok(Some(_))) {
                return output.note("The process that ran the swarm has ended.");
            },
            _ = signals.next() => return Ok(()),
        }
    }
}

/// Signs in to the studio of another process and prints its URL at the relay.
async fn print_remote_studio(
    remote: &RemoteSwarm,
    relay: SocketAddr,
    opens: bool,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let created: Result<CodeBody, ClientError> =
        remote.client.post("/api/studio/codes", &json!({})).await;
    let code = match created {
        Err(ClientError::Refused(refused)) if refused.code == Code::SERVE_NOT_FOUND.as_str() => {
            return Err(no_studio_error(remote));
        }
        created => created?,
    };
    let address = format!("http://{relay}");
    let page = format!("{address}{}#code={}", code.path, code.code);
    if output.json {
        let line = json!({"type": "listening", "url": address, "swarm": remote.swarm.name, "studio": page});
        return output.json_line(&line);
    }
    output.note(&format!(
        "Another process runs the swarm {}. Its studio is at this address until you press Ctrl-C:",
        untrusted_text::line(&remote.swarm.name)
    ))?;
    print_studio_url(&page, opens.then(|| &*remote.workspace().dir), output)
}

/// Prints the studio's URL `url`. Opens it in a browser if `browser_workspace` is the directory of
/// the workspace, which then contains a page that redirects to the URL.
pub(super) fn print_studio_url(
    url: &str,
    browser_workspace: Option<&Path>,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let has_sign_in_code = url.contains('#');
    let validity = if has_sign_in_code {
        "\n  The URL is valid once, for ten minutes."
    } else {
        ""
    };
    output.note(&format!("  {url}{validity}"))?;
    if let Some(workspace) = browser_workspace
        && let Err(error) = browser::open(url, &workspace.join(REDIRECT_FILE))
    {
        tracing::debug!(%error, "could not open a browser");
    }
    Ok(())
}

/// Returns the error of `--edit` for the studio of another process.
fn no_remote_editor_error(remote: &RemoteSwarm) -> CliError {
    let message = format!(
        "Another process runs the swarm {}, so this studio can't change its files.",
        untrusted_text::line(&remote.swarm.name)
    );
    CliError::failure(Code::WORKSPACE_ERROR, message)
        .suggest("Stop the other process, or omit `--edit`.")
}

/// Returns the error of a process whose version of gdn has no studio.
fn no_studio_error(remote: &RemoteSwarm) -> CliError {
    let message = format!(
        "Another process runs the swarm {}, without a studio.",
        untrusted_text::line(&remote.swarm.name)
    );
    CliError::failure(Code::WORKSPACE_ERROR, message).suggest(
        "The process is another version of gdn. Stop it and run `gdn studio` again, or follow it \
            with `gdn attach`.",
    )
}
