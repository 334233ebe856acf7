//! The whole command line, as clap reads it. Each command's own arguments stand in its file under `commands/`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::commands::{
    acp, attach, build, completions, connection, doctor, explain, init, instance, itself, logs,
    lsp, man, mcp, new, nodes, package, policy, reload, run, sandbox_exec, schema, send, serve,
    studio, test, tool, tool_host, trust, validate,
};

const ABOUT: &str = "Run swarms of agents that a project folder with a goondan.yaml declares.";

const EXAMPLES: &str = "\
Examples:
  gdn init my-swarm                       Create a project that runs at once, without an API key
  gdn validate my-swarm                   Check the project
  gdn run my-swarm --input \"Hello\"        Send one input and print the answer
  gdn run my-swarm                        Chat
  gdn instance list                       List the conversations

Documentation: https://github.com/goondan/gdn/blob/main/docs/getting-started.md";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "gdn", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 100)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    disable_help_flag = true
)]
pub(crate) struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Keep conversations and logs in this folder [default: ~/.goondan] [env: GOONDAN_STATE_ROOT]
    // To clap, the variable would be an argument that was given, and a command without one would not show its help.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_root: Option<PathBuf>,
    /// Print results and errors as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show more: -v for tool calls, -vv for the debug log
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Show only results and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print without colours (also: NO_COLOR=1)
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Print help
    // clap's own flag gives every option four lines as soon as one value is explained; this one stays a table.
    #[arg(short, long, global = true, action = ArgAction::HelpShort)]
    help: Option<bool>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a project that runs at once, without an API key
    Init(init::InitArgs),
    /// Create a part of a project, such as a tool library
    New(new::NewArgs),
    /// Check a project and report every mistake in every file
    Validate(validate::ValidateArgs),
    /// Run a swarm with one input, with a stream of inputs, or as a chat
    Run(run::RunArgs),
    /// Hand an input to the process that runs a swarm
    Send(send::SendArgs),
    /// Show what the process that runs a swarm does, and answer its questions
    Attach(attach::AttachArgs),
    /// Serve a swarm to programs over HTTP
    Serve(serve::ServeArgs),
    /// Show a swarm in the browser, where a person sees and steers it
    Studio(studio::StudioArgs),
    /// Let an editor talk to a swarm, by the Agent Client Protocol
    Acp(acp::AcpArgs),
    /// Check and complete the YAML of projects in an editor, by the Language Server Protocol
    Lsp(lsp::LspArgs),
    /// Build the tools and extensions that have a `spec.build`
    Build(build::BuildArgs),
    /// Reload the project in the process that runs it, or show what a reload would change
    Reload(reload::ReloadArgs),
    /// List an agent's tools, or call one without a model
    Tool(tool::ToolArgs),
    /// List MCP servers, import them from other programs, log in to them, or be one
    Mcp(mcp::McpArgs),
    /// Explain what the permissions of an agent allow
    Policy(policy::PolicyArgs),
    /// Add, install, update and publish packages of tools, agents and swarms
    Package(package::PackageArgs),
    /// Trust a project, so that it may load libraries, run programs and read secrets
    Trust(trust::TrustArgs),
    /// List connections to platforms, let senders in, or show where an event would go
    Connection(connection::ConnectionArgs),
    /// List, show, retry, export, import, adopt or delete conversations
    Instance(instance::InstanceArgs),
    /// Show what happened in turns, steps and tool calls
    Logs(logs::LogsArgs),
    /// List the nodes that share a database, and who works in which workspace
    Nodes(nodes::NodesArgs),
    /// Say what the code of an error or a warning means, and what to do about it
    Explain(explain::ExplainArgs),
    /// Print the JSON Schemas of the resource kinds
    Schema(schema::SchemaArgs),
    /// Run conformance cases
    Test(test::TestArgs),
    /// Check this machine and a project for problems
    Doctor(doctor::DoctorArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Write the manual pages of all commands
    Man(man::ManArgs),
    /// Update this program
    #[command(name = "self")]
    Itself(itself::SelfArgs),
    /// Run a tool library with `isolation: process`; other commands start it
    #[command(hide = true)]
    ToolHost(tool_host::ToolHostArgs),
    /// Restrict this process, then become a program; tools start it
    #[command(hide = true)]
    SandboxExec(sandbox_exec::SandboxExecArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn each_command_and_each_argument_says_what_it_does() {
        let mut command = Cli::command();
        command.build();
        assert!(described(&command) > 80);
    }

    /// How many commands and arguments there are. Each has one sentence, which clap shows without its full stop.
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
