//! The complete command line. The arguments of each command are defined in its file in `commands/`.

use clap::{Parser, Subcommand};

use crate::commands::{
    acp, attach, backup, build, cancel, completions, connection, doctor, explain, init, instance,
    logs, lsp, man, mcp, models, new, nodes, package, policy, ps, reload, run, sandbox_exec,
    schema, self_update, send, serve, stop, studio, test, tool, tool_host, trust, validate,
};
use crate::global_args::GlobalArgs;

const ABOUT: &str = "Run the agent swarm defined in a project's goondan.yaml.";

const EXAMPLES: &str = "\
Examples:
  gdn init my-swarm                       Create a project that runs at once, without an API key
  gdn validate my-swarm                   Check the project
  gdn run my-swarm \"Hello\"                Send one input and print the answer
  gdn run my-swarm                        Chat
  gdn conversation list                   List the conversations

Documentation: https://github.com/goondan/gdn/blob/main/docs/getting-started.md";

/// Command line of `gdn`.
#[derive(Debug, Parser)]
#[command(name = "gdn", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 100)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    disable_help_flag = true
)]
pub(crate) struct CommandLine {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// Selected command.
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// Command of `gdn`.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Create a project that runs without an API key
    Init(init::InitArgs),
    /// Create a part of a project, such as an agent, a model or a tool
    New(new::NewArgs),
    /// Validate a project and report all errors
    Validate(validate::ValidateArgs),
    /// Run a swarm with one input, an input stream, or as a chat
    Run(run::RunArgs),
    /// Send an input to the process that runs a swarm
    Send(send::SendArgs),
    /// List the swarms that run on this machine
    Ps(ps::PsArgs),
    /// Stop the process that runs a swarm
    Stop(stop::StopArgs),
    /// Cancel the running turn of a conversation
    Cancel(cancel::CancelArgs),
    /// Follow a running swarm and answer its approval requests
    Attach(attach::AttachArgs),
    /// Serve a swarm to programs over HTTP
    Serve(serve::ServeArgs),
    /// Open a web UI to watch and control a swarm
    Studio(studio::StudioArgs),
    /// Connect an editor to a swarm with the Agent Client Protocol
    Acp(acp::AcpArgs),
    /// Start the language server for the YAML of projects
    Lsp(lsp::LspArgs),
    /// Build the tools and extensions that have a `spec.build`
    Build(build::BuildArgs),
    /// Reload a running project, or preview a reload
    Reload(reload::ReloadArgs),
    /// List an agent's tools, or call one without a model
    Tool(tool::ToolArgs),
    /// List the models, or test them with one small request
    Models(models::ModelsArgs),
    /// Manage MCP servers (list, import, login), or serve this swarm over MCP
    Mcp(mcp::McpArgs),
    /// Explain the permissions of an agent
    Policy(policy::PolicyArgs),
    /// Add, install, update and publish packages
    Package(package::PackageArgs),
    /// Trust a project to load libraries, run programs and read secrets
    Trust(trust::TrustArgs),
    /// List connections, approve senders, or test event routing
    Connection(connection::ConnectionArgs),
    /// List, show, retry, fork, export, import, adopt or delete conversations
    #[command(name = "conversation", visible_alias = "instance")]
    Instance(instance::InstanceArgs),
    /// Show the turns, steps and tool calls of past runs
    Logs(logs::LogsArgs),
    /// Copy a project's conversations and events, while it may run
    Backup(backup::BackupArgs),
    /// Create a workspace from a backup
    Restore(backup::RestoreArgs),
    /// List the nodes that share a database, and their workspaces
    Nodes(nodes::NodesArgs),
    /// Explain an error or warning code
    Explain(explain::ExplainArgs),
    /// Print the JSON Schemas of the resource kinds
    Schema(schema::SchemaArgs),
    /// Run test cases
    Test(test::TestArgs),
    /// Check this machine and a project for problems
    Doctor(doctor::DoctorArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Write the manual pages of all commands
    Man(man::ManArgs),
    /// Update this program
    #[command(name = "self")]
    Itself(self_update::SelfArgs),
    /// Run a tool library with `isolation: process`; started by other commands
    #[command(hide = true)]
    ToolHost(tool_host::ToolHostArgs),
    /// Restrict this process, then execute a program; started by tools
    #[command(hide = true)]
    SandboxExec(sandbox_exec::SandboxExecArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_definition_is_valid() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn each_command_and_argument_has_a_help_text() {
        let mut command = CommandLine::command();
        command.build();
        assert!(described(&command) > 80);
    }

    /// Counts commands and arguments. Each must have a one-sentence help without a full stop.
    fn described(command: &clap::Command) -> usize {
        let about = command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(about.len() > 10, "{}", command.get_name());
        for argument in command
            .get_arguments()
            .filter(|argument| !argument.is_hide_set())
        {
            let help = argument
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let is_sentence = help.starts_with(char::is_uppercase) && !help.ends_with('.');
            assert!(
                is_sentence,
                "{} {}: {help}",
                command.get_name(),
                argument.get_id()
            );
        }
        1 + command.get_arguments().count()
            + command.get_subcommands().map(described).sum::<usize>()
    }
}
