//! `gdn serve`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use goondan::StateRoot;
use goondan::inside::{private, shown};
use goondan::spec::Code;
use goondan_connect::Connections;
use goondan_serve::{Access, Limits, Offer, Server, Token};
use serde_json::json;
use tokio::net::TcpListener;

use super::run::{Asked, Session, Signals, watched};
use super::studio;
use crate::exit::CliError;
use crate::output::Output;
use crate::place::ProjectPath;
use crate::project::{Launch, StartArgs};
use crate::reading;
use crate::remote::NotStarted;
use goondan::spec::reason;

const EXAMPLES: &str = "\
Examples:
  gdn serve                                  Serve the project of this folder to programs of this machine
  gdn serve --watch                          Reload the project when it changes
  gdn serve --listen 0.0.0.0:4747 --allow-host gdn.example.org
  gdn serve --store postgres://gdn@db/swarms  Work in a database, together with other nodes
  gdn serve --allow-origin http://localhost:5173";

/// The file of the workspace with the token, where none is given.
const TOKEN_FILE: &str = "token";

/// Arguments of `gdn serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    project: ProjectPath,
    /// Listen at this address; port 0 takes any that is free
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:4747")]
    listen: SocketAddr,
    /// Want the token in this file [default: GOONDAN_TOKEN, or a token that is made once for the workspace]
    #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
    token_file: Option<PathBuf>,
    /// Let everybody on this machine in without a token
    #[arg(long)]
    no_token: bool,
    /// Answer to this host name, too; can be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Let pages of this origin use the server; can be repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Take bodies of at most so many bytes
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body)]
    max_body: usize,
    /// Deliver the files of this folder, too, to everybody who reaches the server
    #[arg(long, value_name = "FOLDER")]
    site: Option<PathBuf>,
    /// Offer a page, too, where a person sees and steers the swarm
    #[arg(long)]
    studio: bool,
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
    /// As `gdn studio` serves: for this machine, with the page, following what changes.
    pub(super) fn for_studio(
        project: ProjectPath,
        listen: SocketAddr,
        opens: bool,
        start: StartArgs,
    ) -> Self {
        ServeArgs {
            project,
            listen,
            token_file: None,
            no_token: false,
            allow_host: Vec::new(),
            allow_origin: Vec::new(),
            max_body: Limits::default().body,
            site: None,
            studio: true,
            watch: true,
            start,
            opens,
        }
    }
}

/// Serves until a signal comes.
pub(crate) async fn run(
    args: ServeArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    watched(async |signals| Ok(serve(&args, signals, state_root, output).await?)).await
}

/// Serves until a signal comes; who runs the swarm already where it can't.
pub(super) async fn serve(
    args: &ServeArgs,
    signals: Signals,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), NotStarted> {
    check(args)?;
    let given = given_token(args)?;
    // Before the swarm starts: an address that is taken must not begin turns that an earlier run has left.
    let mut listener = Some(bind(args.listen).await?);
    if args.start.store.is_given() {
        // A node that does not lead answers nobody: whoever spreads requests must see that.
        listener = None;
    }
    let project = args.project.find(output)?;
    let launch = Launch {
        project: &project,
        args: &args.start,
        record: None,
        watch: args.watch,
        asked: Asked::Clients,
        waits: true,
    };
    let mut session = match Session::start(launch, signals, state_root, output).await {
        // A node that has worked for another one until then.
        Err(NotStarted::Failed(error)) if error.code == Code::INTERRUPTED => return Ok(()),
        started => started?,
    };
    let (token, token_file) = match given {
        Given::None => (None, None),
        Given::Token(token, file) => (Some(token), file),
        Given::OfWorkspace => {
            let file = session.swarm.workspace_dir().join(TOKEN_FILE);
            (Some(workspace_token(&file)?), Some(file))
        }
    };
    let limits = Limits {
        body: args.max_body,
        ..Limits::default()
    };
    session
        .connect(
            true,
            Some(crate::commands::run::console::of_process(output)),
        )
        .await?;
    let further = session.connections.as_ref().map(Connections::router);
    let listener = match listener {
        Some(listener) => listener,
        None => bind(args.listen).await?,
    };
    let access = access(args, token);
    // Where nobody needs a token, nobody signs in.
    let code = access
        .token
        .as_ref()
        .map(|_| format!("#code={}", access.sign_ins.code().expose()))
        .unwrap_or_default();
    let recorder = Some(Arc::clone(&session.door.recorder));
    let offer = Offer {
        access,
        limits,
        site: args.site.clone(),
        studio: args.studio,
        recorder,
        further,
    };
    let server =
        Server::listen(listener, session.door.service.clone(), offer).map_err(CliError::from)?;
    session.door.opened().await;
    let page = args.studio.then(|| {
        format!(
            "http://{}{}{code}",
            server.address(),
            goondan_serve::studio::PATH
        )
    });
    tell(
        &server,
        &session,
        Told {
            needs_token: !args.no_token,
            token_file,
            page,
            opens: args.opens,
        },
        output,
    )?;
    wait(&mut session, output).await?;
    let ended = session.shut_down().await;
    server.end().await;
    // A signal is how a server is meant to end.
    Ok(ended.or_else(|error| {
        if error.code == Code::INTERRUPTED {
            Ok(())
        } else {
            Err(error)
        }
    })?)
}

fn check(args: &ServeArgs) -> Result<(), CliError> {
    if args.no_token && !args.listen.ip().is_loopback() {
        let refused = CliError::usage("`--no-token` would let the whole network use the swarm.");
        return Err(refused.suggest("Leave `--no-token` out, or listen at 127.0.0.1."));
    }
    if let Some(folder) = args.site.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(CliError::configuration(format!(
            "There is no folder `{}` to deliver.",
            folder.display()
        ))
        .suggest("Give `--site` the folder with your pages."));
    }
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address)
        .await
        .map_err(|error| not_bound(address, &error))
}

/// Goes on until a signal comes. Questions wait for clients, however long.
async fn wait(session: &mut Session, output: &Output) -> Result<(), CliError> {
    let mut somebody = session
        .somebody
        .take()
        .unwrap_or_else(|| session.door.broker.listen());
    loop {
        tokio::select! {
            // They are for the clients: here is only who keeps agents waiting for them.
            Some(_) = somebody.next() => {}
            Some(_) = session.events.recv() => {}
            words = session.reloads.next() => output.note(&words)?,
            signal = session.signals.next() => {
                session.door.service.drain();
                return session.stop(signal);
            }
        }
    }
}

fn access(args: &ServeArgs, token: Option<Token>) -> Access {
    let mut access = Access::local(token.clone().unwrap_or_else(Token::random));
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

/// The token that the command was given.
enum Given {
    /// Nobody needs one.
    None,
    /// That one, from that file.
    Token(Token, Option<PathBuf>),
    /// None: the workspace has one.
    OfWorkspace,
}

fn given_token(args: &ServeArgs) -> Result<Given, CliError> {
    if args.no_token {
        return Ok(Given::None);
    }
    if let Some(file) = &args.token_file {
        return read_token(file).map(|token| Given::Token(token, Some(file.clone())));
    }
    match std::env::var("GOONDAN_TOKEN") {
        Ok(text) if !text.is_empty() => Token::new(text)
            .map(|token| Given::Token(token, None))
            .ok_or_else(|| no_token("GOONDAN_TOKEN")),
        _ => Ok(Given::OfWorkspace),
    }
}

fn read_token(file: &Path) -> Result<Token, CliError> {
    let shown = format!("The file `{}`", file.display());
    let text = reading::text(reading::open(file, &shown)?, &shown)?;
    Token::new(text.trim()).ok_or_else(|| no_token(&shown))
}

fn no_token(what: &str) -> CliError {
    CliError::configuration(format!("{what} holds no token."))
        .suggest("A token has at least 16 letters, digits and signs, and no spaces: try `openssl rand -hex 32`.")
}

/// The token of the workspace, which is made with the first server and stays.
fn workspace_token(file: &Path) -> Result<Token, CliError> {
    if file.exists() {
        return read_token(file);
    }
    let token = Token::random();
    private::replace(file, format!("{}\n", token.expose()).as_bytes())?;
    Ok(token)
}

fn not_bound(address: SocketAddr, error: &std::io::Error) -> CliError {
    CliError::failure(
        Code::SERVE_ADDRESS,
        format!(
            "The server can't listen at {address}: {error}.",
            error = reason(error)
        ),
    )
    .suggest("Choose another address with `--listen`; port 0 takes any that is free.")
}

/// What is told of a server.
struct Told {
    needs_token: bool,
    token_file: Option<PathBuf>,
    /// The address of the studio.
    page: Option<String>,
    opens: bool,
}

/// Tells where the server is, and how it is asked: with the token of that file, or with the one of the environment.
fn tell(server: &Server, session: &Session, told: Told, output: &Output) -> Result<(), CliError> {
    let (base, token_file) = (
        format!("http://{}", server.address()),
        told.token_file.as_deref(),
    );
    if output.json {
        let mut line = json!({"type": "listening", "url": base, "swarm": session.swarm.name(), "tokenFile": token_file});
        if let Some(page) = told.page {
            line["studio"] = page.into();
        }
        return output.json_line(&line);
    }
    let secret = match token_file {
        Some(file) => Some(format!("$(cat {})", super::quoted(&file.to_string_lossy()))),
        None => told.needs_token.then(|| "$GOONDAN_TOKEN".to_owned()),
    };
    let token = secret.map(|secret| format!(" -H \"Authorization: Bearer {secret}\""));
    output.note(&format!(
        "Serving the swarm {} at {base}. Press Ctrl-C to stop.\n  Try: curl{} {base}/api/swarm",
        shown::line(session.swarm.name()),
        token.unwrap_or_default(),
    ))?;
    let Some(page) = told.page else { return Ok(()) };
    output.note("The studio shows it in the browser:")?;
    let workspace = session.swarm.workspace_dir();
    studio::tell(&page, told.opens.then_some(&*workspace), output)
}
