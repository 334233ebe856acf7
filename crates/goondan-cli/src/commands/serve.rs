//! `gdn serve`: serves a swarm to programs over HTTP.

mod activity_lines;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use goondan::StateRoot;
use goondan::internal::{private_files, real_path, secret_files, untrusted_text};
use goondan::spec::{Code, Secret};
use goondan_connect::{Connections, DeliveredAnswer};
use goondan_serve::{
    AccessPolicy, ProjectEditor, Server, ServerLimits, ServerOptions, ServerToken,
};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;

use self::activity_lines::ActivityLines;
use super::run::{ApprovalResponder, RunSession, SignalReceiver, run_with_signals};
use super::studio;
use crate::exit::CliError;
use crate::input_files;
use crate::output::CommandOutput;
use crate::project::{StartArgs, SwarmLaunch};
use crate::project_editor::DirectoryEditor;
use crate::project_path::ProjectPathArg;
use crate::remote::NotStarted;
use goondan::spec::reason;

const EXAMPLES: &str = "\
Examples:
  gdn serve                                  Serve the project to programs on this machine
  gdn serve --watch                          Reload the project when it changes
  gdn serve --listen 0.0.0.0:4747 --allow-host gdn.example.org
  gdn serve --store postgres://gdn@db/swarms  Share a database with other nodes
  gdn serve --allow-origin http://localhost:5173";

/// File in the workspace with the generated token.
pub(crate) const TOKEN_FILE: &str = "token";

/// Arguments of `gdn serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// Listen on this address; port 0 picks a free port
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:4747")]
    listen: SocketAddr,
    /// Listen on this port of 127.0.0.1
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// Require the token in this file [default: GOONDAN_TOKEN, or a token generated once per
    /// workspace]
    #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
    token_file: Option<PathBuf>,
    /// Accept all clients on this machine without a token
    #[arg(long)]
    no_token: bool,
    /// Accept this host name in addition; can be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Let pages of this origin use the server; can be repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Maximum size of a request body, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = ServerLimits::default().body)]
    max_body: usize,
    /// Serve the files in this directory to anyone who can connect
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,
    /// Serve a web page that shows and controls the swarm
    #[arg(long)]
    studio: bool,
    /// Let clients of the studio change files of the project
    #[arg(long, requires = "studio", conflicts_with = "no_token")]
    edit: bool,
    /// Reload the project whenever one of its files changes
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    start: StartArgs,
    /// Open the page in a browser
    #[arg(skip)]
    opens: bool,
}

impl ServeArgs {
    /// Arguments of `gdn studio`: local clients only, with the studio page, reloading on changes.
    pub(super) fn for_studio(
        project: ProjectPathArg,
        listen: SocketAddr,
        (opens, edit): (bool, bool),
        start: StartArgs,
    ) -> Self {
        ServeArgs {
            project,
            listen,
            port: None,
            token_file: None,
            no_token: false,
            allow_host: Vec::new(),
            allow_origin: Vec::new(),
            max_body: ServerLimits::default().body,
            site: None,
            studio: true,
            edit,
            watch: true,
            start,
            opens,
        }
    }
}

/// Runs the server until a signal arrives.
pub(crate) async fn run(
    mut args: ServeArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    if let Some(port) = args.port {
        args.listen.set_port(port);
    }
    run_with_signals(async |signals| Ok(serve(&args, signals, state_root, output).await?)).await
}

/// Serves until a signal arrives. If another process runs the swarm, the error contains it.
pub(super) async fn serve(
    args: &ServeArgs,
    signals: SignalReceiver,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), NotStarted> {
    check_args(args, state_root)?;
    let token_source = token_source(args)?;
    // Bound before the swarm starts: if the address is in use, no turn of an earlier run may
    // resume.
    let mut listener = Some(bind(args.listen).await?);
    if args.start.store.is_given() {
        // A standby node must not listen, so that load balancers skip it.
        listener = None;
    }
    let project = args.project.find(output)?;
    let launch = SwarmLaunch {
        project: &project,
        args: &args.start,
        record: None,
        watch: args.watch,
        asked: ApprovalResponder::Clients,
        waits: true,
    };
    let mut session = match RunSession::start(launch, signals, state_root, output).await {
        // A worker node that received a signal before it became leader.
        Err(NotStarted::Failed(error)) if error.code == Code::INTERRUPTED => return Ok(()),
        started => started?,
    };
    let (token, token_file) = match token_source {
        TokenSource::None => (None, None),
        TokenSource::Token(token, file) => (Some(token), file),
        TokenSource::OfWorkspace => {
            let file = session.swarm.workspace_dir().join(TOKEN_FILE);
            (Some(workspace_token(&file)?), Some(file))
        }
    };
    // A tool outside of any sandbox can read the file, so its result must not contain the token.
    let secret = token.iter().map(|token| Secret::new(token.expose()));
    crate::output::redactor().add_secrets(secret);
    let limits = ServerLimits {
        body: args.max_body,
        ..ServerLimits::default()
    };
    session
        .connect(
            true,
            Some(crate::commands::run::console::standard_console(output)),
        )
        .await?;
    let connection_routes = session.connections.as_ref().map(Connections::router);
    let listener = match listener {
        Some(listener) => listener,
        None => bind(args.listen).await?,
    };
    let access = access_policy(args, token);
    // Without a token there is no sign-in.
    let code = access
        .token
        .as_ref()
        .map(|_| format!("#code={}", access.sign_ins.code().expose()))
        .unwrap_or_default();
    let cases = session.endpoint.cases.clone();
    let editor = editor(args, &session, state_root)?;
    let options = ServerOptions {
        access,
        limits,
        site: args.site.clone(),
        studio: args.studio,
        recorder: Some(cases.recorder),
        runner: Some(cases.runner),
        editor,
        further: connection_routes,
    };
    let address = listener.local_addr().map_err(CliError::from)?;
    let server = Server::listen(listener, session.endpoint.service.clone(), options);
    session.endpoint.wait_until_open().await;
    let page = args.studio.then(|| {
        format!(
            "http://{address}{}{code}",
            goondan_serve::studio::STUDIO_PATH
        )
    });
    print_server_url(
        address,
        &session,
        ServerNotice {
            needs_token: !args.no_token,
            token_file,
            page,
            opens: args.opens,
        },
        output,
    )?;
    wait_for_signal(&mut session, output).await?;
    let ended = session.shut_down().await;
    server.end().await;
    // A signal is the normal way to end a server.
    Ok(ended.or_else(|error| {
        if error.code == Code::INTERRUPTED {
            Ok(())
        } else {
            Err(error)
        }
    })?)
}

/// Returns the editor of the studio if `--edit` is given.
fn editor(
    args: &ServeArgs,
    session: &RunSession,
    state_root: &StateRoot,
) -> Result<Option<Arc<dyn ProjectEditor>>, CliError> {
    if !args.edit {
        return Ok(None);
    }
    let bundle = session.swarm.bundle();
    let editor = DirectoryEditor::new(bundle.root(), args.start.trust(state_root))?;
    Ok(Some(Arc::new(editor)))
}

/// Fails if the arguments do not fit together, or if the directory of `--site` cannot be served.
fn check_args(args: &ServeArgs, state_root: &StateRoot) -> Result<(), CliError> {
    if args.no_token && !args.listen.ip().is_loopback() {
        let refused = CliError::usage(
            "`--no-token` is only allowed on a loopback address, \
            because anyone on the network could use the swarm.",
        );
        return Err(refused.suggest("Omit `--no-token`, or listen on 127.0.0.1."));
    }
    if args.edit && !args.listen.ip().is_loopback() {
        let refused = CliError::usage(
            "`--edit` is only allowed on a loopback address, because its clients can change the \
            project.",
        );
        return Err(refused.suggest("Omit `--edit`, or listen on 127.0.0.1."));
    }
    match &args.site {
        Some(folder) => check_site(folder, state_root, args.token_file.as_deref()),
        None => Ok(()),
    }
}

/// Fails if the directory of `--site` does not exist, or if it would publish the state of gdn or the
/// token of the server.
fn check_site(
    folder: &Path,
    state_root: &StateRoot,
    token_file: Option<&Path>,
) -> Result<(), CliError> {
    if !folder.is_dir() {
        return Err(CliError::configuration(format!(
            "The directory `{}` does not exist.",
            folder.display()
        ))
        .suggest("Pass `--site` the directory with your pages."));
    }
    let real_path_of = |path: &Path| real_path(path).unwrap_or_else(|_| path.to_owned());
    let (site, state) = (real_path_of(folder), real_path_of(&state_root.0));
    let published = if state.starts_with(&site) || site.starts_with(&state) {
        format!("gdn's own state in `{}`", state.display())
    } else if let Some(file) = token_file.filter(|file| real_path_of(file).starts_with(&site)) {
        format!("the server token in `{}`", file.display())
    } else {
        return Ok(());
    };
    Err(CliError::configuration(format!(
        "`--site {}` would publish {published}.",
        folder.display()
    ))
    .suggest("Pass `--site` a directory that contains only your pages."))
}

/// Opens the listener of the server.
pub(super) async fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address)
        .await
        .map_err(|error| bind_error(address, &error))
}

/// Serves until a signal arrives. Approval requests wait for clients without a time limit.
async fn wait_for_signal(session: &mut RunSession, output: &CommandOutput) -> Result<(), CliError> {
    let mut lines = ActivityLines::new(output);
    let mut approval_listener = match session.client_listener.take() {
        Some(listener) => listener,
        None => session.endpoint.broker.listen(),
    };
    loop {
        tokio::select! {
            // Clients receive the requests. This listener keeps agents waiting for them.
            Some(approval) = approval_listener.next() => lines.approval(&approval.request)?,
            Some(event) = session.events.recv() => lines.event(&event)?,
            Some(answer) = next_delivery(&mut session.deliveries) => lines.delivery(&answer)?,
            notice = session.reloads.next() => output.note(&notice)?,
            signal = session.signals.next() => {
                session.endpoint.service.drain();
                return session.stop(signal);
            }
        }
    }
}

/// Waits for the next delivered answer; forever if the session has no connections.
async fn next_delivery(
    deliveries: &mut Option<UnboundedReceiver<DeliveredAnswer>>,
) -> Option<DeliveredAnswer> {
    match deliveries {
        Some(deliveries) => deliveries.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns which clients, hosts and origins may use the server.
fn access_policy(args: &ServeArgs, token: Option<ServerToken>) -> AccessPolicy {
    let mut access = AccessPolicy::local(token.clone().unwrap_or_else(ServerToken::random));
    access.token = token;
    access.hosts.insert(match args.listen {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    });
    access
        .hosts
        .extend(args.allow_host.iter().map(|host| host.to_ascii_lowercase()));
    access.origins.extend(
        args.allow_origin
            .iter()
            .map(|origin| origin.trim_end_matches('/').to_owned()),
    );
    access
}

/// Source of the server token.
enum TokenSource {
    /// No token is required.
    None,
    /// A given token, with its file if it was read from one.
    Token(ServerToken, Option<PathBuf>),
    /// No token was given: the workspace token applies.
    OfWorkspace,
}

/// Returns the token of the arguments or of the environment. Default: the workspace token.
fn token_source(args: &ServeArgs) -> Result<TokenSource, CliError> {
    if args.no_token {
        return Ok(TokenSource::None);
    }
    if let Some(file) = &args.token_file {
        return read_token(file).map(|token| TokenSource::Token(token, Some(file.clone())));
    }
    match std::env::var("GOONDAN_TOKEN") {
        Ok(text) if !text.is_empty() => ServerToken::new(text)
            .map(|token| TokenSource::Token(token, None))
            .ok_or_else(|| invalid_token_error("GOONDAN_TOKEN")),
        _ => Ok(TokenSource::OfWorkspace),
    }
}

/// Reads a token from a file. Fails if it is invalid.
fn read_token(file: &Path) -> Result<ServerToken, CliError> {
    secret_files::declare(file);
    let name = format!("The file `{}`", file.display());
    let text = input_files::read_text(input_files::open(file, &name)?, &name)?;
    ServerToken::new(text.trim()).ok_or_else(|| invalid_token_error(&name))
}

/// Returns the error of an invalid token; `what` names its source.
fn invalid_token_error(what: &str) -> CliError {
    CliError::configuration(format!("{what} contains no valid token.")).suggest(
        "A token has at least 16 characters (letters, digits, punctuation) and no spaces. Create \
            one with `openssl rand -hex 32`.",
    )
}

/// Returns the workspace token, which the first server generates.
fn workspace_token(file: &Path) -> Result<ServerToken, CliError> {
    if file.exists() {
        return read_token(file);
    }
    let token = ServerToken::random();
    private_files::replace(file, format!("{}\n", token.expose()).as_bytes())?;
    Ok(token)
}

/// Returns the error of an address that the server can't listen on.
fn bind_error(address: SocketAddr, error: &std::io::Error) -> CliError {
    CliError::failure(
        Code::SERVE_ADDRESS,
        format!(
            "The server can't listen on {address}: {error}.",
            error = reason(error)
        ),
    )
    .suggest("Choose another address with `--listen`; port 0 picks a free port.")
}

/// Facts to print about a started server.
struct ServerNotice {
    needs_token: bool,
    token_file: Option<PathBuf>,
    /// URL of the studio.
    page: Option<String>,
    opens: bool,
}

/// Prints the server's URL and how to authenticate.
fn print_server_url(
    address: SocketAddr,
    session: &RunSession,
    notice: ServerNotice,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let (base, token_file) = (format!("http://{address}"), notice.token_file.as_deref());
    if output.json {
        let token_file = token_file.map(Path::to_string_lossy);
        let mut line = json!({"type": "listening", "url": base, "swarm": session.swarm.name(), "tokenFile": token_file});
        if let Some(studio_url) = notice.page {
            line["studio"] = studio_url.into();
        }
        return output.json_line(&line);
    }
    let secret = match token_file {
        Some(file) => Some(format!("$(cat {})", super::quoted(&file.to_string_lossy()))),
        None => notice.needs_token.then(|| "$GOONDAN_TOKEN".to_owned()),
    };
    let token = secret.map(|secret| format!(" -H \"Authorization: Bearer {secret}\""));
    output.note(&format!(
        "Serving the swarm {} at {base}. Press Ctrl-C to stop.\n  Try: curl{} {base}/api/swarm",
        untrusted_text::line(session.swarm.name()),
        token.unwrap_or_default(),
    ))?;
    let Some(studio_url) = notice.page else {
        return Ok(());
    };
    output.note("Open the studio in a browser:")?;
    let workspace = session.swarm.workspace_dir();
    // With a directory, the URL is also opened in a browser. The directory holds the private page
    // that redirects the browser.
    let redirect_dir = notice.opens.then_some(&*workspace);
    studio::print_studio_url(&studio_url, redirect_dir, output)
}
