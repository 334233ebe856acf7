//! One file a command.

pub(crate) mod acp;
pub(crate) mod attach;
mod browser;
pub(crate) mod build;
pub(crate) mod completions;
pub(crate) mod connection;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod init;
pub(crate) mod instance;
pub(crate) mod itself;
pub(crate) mod logs;
pub(crate) mod lsp;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod new;
pub(crate) mod nodes;
pub(crate) mod package;
pub(crate) mod policy;
pub(crate) mod reload;
pub(crate) mod run;
pub(crate) mod sandbox_exec;
pub(crate) mod schema;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod studio;
pub(crate) mod test;
pub(crate) mod tool;
pub(crate) mod tool_host;
pub(crate) mod trust;
pub(crate) mod validate;

pub(crate) use self::init::quoted;

use std::future::Future;
use std::time::Duration;

use goondan::StateRoot;

use crate::args::{Cli, Command};
use crate::exit::CliError;
use crate::output::Output;

/// Runs the command that was asked for.
pub(crate) fn run(cli: Cli, output: &Output) -> Result<(), CliError> {
    let state_root = StateRoot::find(cli.global.state_root.as_deref());
    match cli.command {
        Command::Init(args) => init::run(&args, &state_root, output),
        Command::New(args) => new::run(&args, output),
        Command::Validate(args) => block_on(validate::run(&args, &state_root, output)),
        Command::Policy(args) => block_on(policy::run(&args, &state_root, output)),
        Command::Run(args) => block_on(run::run(args, &state_root, output)),
        Command::Send(args) => block_on(send::run(args, &state_root, output)),
        Command::Attach(args) => block_on(attach::run(args, &state_root, output)),
        Command::Serve(args) => block_on(serve::run(args, &state_root, output)),
        Command::Studio(args) => block_on(studio::run(args, &state_root, output)),
        Command::Acp(args) => block_on(acp::run(args, &state_root, output)),
        Command::Lsp(args) => lsp::run(&args, &state_root),
        Command::Build(args) => block_on(build::run(&args, &state_root, output)),
        Command::Reload(args) => block_on(reload::run(&args, &state_root, output)),
        Command::Tool(args) => block_on(tool::run(args, &state_root, output)),
        Command::Mcp(args) => block_on(mcp::run(args, &state_root, output)),
        Command::Connection(args) => connection::run(&args, &state_root, output),
        Command::Instance(args) => instance::run(&args, &state_root, output),
        Command::Logs(args) => block_on(logs::run(&args, &state_root, output)),
        Command::Nodes(args) => block_on(nodes::run(&args, output)),
        Command::Package(args) => block_on(package::run(args, &state_root, output)),
        Command::Trust(args) => trust::run(&args, &state_root, output),
        Command::Explain(args) => explain::run(&args, output),
        Command::Schema(args) => schema::run(&args, output),
        Command::Test(args) => test::run(&args, &state_root, output),
        Command::Doctor(args) => doctor::run(&args, &state_root, output),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Itself(args) => block_on(itself::run(&args, output)),
        Command::ToolHost(args) => tool_host::run(&args),
        // Its exit code is the program's: `app` runs it before anything else.
        Command::SandboxExec(_) => Ok(()),
    }
}

/// How long tasks get to drop what they hold: a command that a tool has started dies with its call.
const DROP_TIME: Duration = Duration::from_millis(500);

/// Runs an asynchronous command. What still runs when it returns is dropped: its state is on disk.
fn block_on<T>(command: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_timeout(DROP_TIME);
    outcome
}
