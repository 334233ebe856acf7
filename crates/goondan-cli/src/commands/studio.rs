//! `gdn studio`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use clap::Args;
use goondan::StateRoot;
use goondan::inside::shown;
use goondan::spec::Code;
use goondan_serve::client::ClientError;
use goondan_serve::wire::CodeBody;
use serde_json::json;

use super::browser;
use super::run::{Signals, watched};
use super::serve::{self, ServeArgs};
use crate::exit::CliError;
use crate::output::Output;
use crate::place::ProjectPath;
use crate::project::StartArgs;
use crate::remote::{NotStarted, Remote};

const EXAMPLES: &str = "\
Examples:
  gdn studio                      Run the swarm of this folder, and open a page that shows it
  gdn studio --no-open            Print the address of the page and open no browser
  gdn studio examples/newsroom --port 4748";

/// Arguments of `gdn studio`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StudioArgs {
    #[command(flatten)]
    project: ProjectPath,
    /// Listen at this port of this machine [default: any that is free]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    port: u16,
    /// Open no browser
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    start: StartArgs,
}

/// Runs the swarm with its page until a signal comes, or leads to the page of the process that runs it already.
pub(crate) async fn run(
    args: StudioArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    watched(async |signals| show(args, signals, state_root, output).await).await
}

async fn show(
    args: StudioArgs,
    signals: Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let opens = !args.no_open && !output.json && Output::stderr_is_terminal();
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let serving = ServeArgs::for_studio(args.project, listen, opens, args.start);
    match serve::serve(&serving, signals, state_root, output).await {
        Err(NotStarted::Elsewhere(remote, _)) => elsewhere(&remote, opens, output).await,
        ended => Ok(ended?),
    }
}

/// Leads to the page of another process, through the door of the workspace.
async fn elsewhere(remote: &Remote, opens: bool, output: &Output) -> Result<(), CliError> {
    let made: Result<CodeBody, ClientError> =
        remote.client.post("/api/studio/codes", &json!({})).await;
    let code = match made {
        Err(ClientError::Refused(refused)) if refused.code == Code::SERVE_NOT_FOUND.as_str() => {
            return Err(no_page(remote));
        }
        made => made?,
    };
    let address = format!("http://{}", remote.client.address());
    let page = format!("{address}{}#code={}", code.path, code.code);
    if output.json {
        let line = json!({"type": "listening", "url": address, "swarm": remote.swarm.name, "studio": page});
        return output.json_line(&line);
    }
    output.note(&format!(
        "Another process runs the swarm {}. Its studio:",
        shown::line(&remote.swarm.name)
    ))?;
    tell(&page, opens.then(|| &*remote.workspace().dir), output)
}

/// Prints where the page is, and opens it where a browser is wanted; `opens` says with which workspace.
pub(super) fn tell(page: &str, opens: Option<&Path>, output: &Output) -> Result<(), CliError> {
    let once = if page.contains('#') {
        "\n  This address lets one browser in, once, within ten minutes."
    } else {
        ""
    };
    output.note(&format!("  {page}{once}"))?;
    if let Some(workspace) = opens
        && let Err(error) = browser::open_secretly(page, workspace)
    {
        tracing::debug!(%error, "no browser was opened");
    }
    Ok(())
}

fn no_page(remote: &Remote) -> CliError {
    let message = format!(
        "Another process runs the swarm {}, and has no studio.",
        shown::line(&remote.swarm.name)
    );
    CliError::failure(Code::WORKSPACE_ERROR, message)
        .suggest("It is of another version of gdn. End it and run `gdn studio` again, or watch it with `gdn attach`.")
}
