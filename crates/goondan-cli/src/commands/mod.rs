//! The commands, one file each.

pub(crate) mod acp;
mod async_runtime;
pub(crate) mod attach;
pub(crate) mod backup;
mod browser;
pub(crate) mod build;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod connection;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod init;
pub(crate) mod instance;
pub(crate) mod logs;
pub(crate) mod lsp;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod new;
pub(crate) mod nodes;
pub(crate) mod package;
pub(crate) mod policy;
pub(crate) mod ps;
pub(crate) mod reload;
pub(crate) mod restored_grants;
pub(crate) mod run;
pub(crate) mod sandbox_exec;
pub(crate) mod schema;
pub(crate) mod self_update;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod stop;
pub(crate) mod studio;
mod studio_relay;
pub(crate) mod test;
pub(crate) mod tool;
pub(crate) mod tool_host;
pub(crate) mod trust;
pub(crate) mod validate;

pub(crate) use self::init::quoted;

use goondan::StateRoot;

use self::async_runtime::block_on;
use crate::args::{CliCommand, CommandLine};
use crate::exit::CliError;
use crate::output::CommandOutput;

/// Runs the selected command.
pub(crate) fn run(cli: CommandLine, output: &CommandOutput) -> Result<(), CliError> {
    let state_root = StateRoot::find(cli.global.state_root.as_deref());
    match cli.command {
        CliCommand::Init(args) => init::run(&args, &state_root, output),
        CliCommand::New(args) => new::run(&args, output),
        CliCommand::Validate(args) => block_on(validate::run(&args, &state_root, output)),
        CliCommand::Policy(args) => block_on(policy::run(&args, &state_root, output)),
        CliCommand::Run(args) => block_on(run::run(args, &state_root, output)),
        CliCommand::Send(args) => block_on(send::run(args, &state_root, output)),
        CliCommand::Ps(args) => block_on(ps::run(&args, &state_root, output)),
        CliCommand::Stop(args) => block_on(stop::run(&args, &state_root, output)),
        CliCommand::Cancel(args) => block_on(cancel::run(&args, &state_root, output)),
        CliCommand::Attach(args) => block_on(attach::run(args, &state_root, output)),
        CliCommand::Serve(args) => block_on(serve::run(args, &state_root, output)),
        CliCommand::Studio(args) => block_on(studio::run(args, &state_root, output)),
        CliCommand::Acp(args) => block_on(acp::run(args, &state_root, output)),
        CliCommand::Lsp(args) => lsp::run(&args, &state_root),
        CliCommand::Build(args) => block_on(build::run(&args, &state_root, output)),
        CliCommand::Reload(args) => block_on(reload::run(&args, &state_root, output)),
        CliCommand::Tool(args) => block_on(tool::run(args, &state_root, output)),
        CliCommand::Models(args) => block_on(models::run(&args, &state_root, output)),
        CliCommand::Mcp(args) => block_on(mcp::run(args, &state_root, output)),
        CliCommand::Connection(args) => connection::run(&args, &state_root, output),
        CliCommand::Instance(args) => instance::run(&args, &state_root, output),
        CliCommand::Logs(args) => block_on(logs::run(&args, &state_root, output)),
        CliCommand::Backup(args) => backup::back_up(&args, &state_root, output),
        CliCommand::Restore(args) => backup::restore(&args, &state_root, output),
        CliCommand::Nodes(args) => block_on(nodes::run(&args, output)),
        CliCommand::Package(args) => block_on(package::run(args, &state_root, output)),
        CliCommand::Trust(args) => trust::run(&args, &state_root, output),
        CliCommand::Explain(args) => explain::run(&args, output),
        CliCommand::Schema(args) => schema::run(&args, output),
        CliCommand::Test(args) => test::run(&args, &state_root, output),
        CliCommand::Doctor(args) => doctor::run(&args, &state_root, output),
        CliCommand::Completions(args) => completions::run(&args),
        CliCommand::Man(args) => man::run(&args),
        CliCommand::Itself(args) => block_on(self_update::run(&args, output)),
        CliCommand::ToolHost(args) => tool_host::run(&args),
        // `app` runs it before anything else; its exit code is that of the program.
        CliCommand::SandboxExec(_) => Ok(()),
    }
}
