//! The whole command line, as clap reads it. Each command's own arguments stand in its file under `commands/`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::commands::{
    build, completions, doctor, init, instance, logs, mcp, new, policy, reload, run, sandbox_exec, schema, test, tool,
    tool_host, trust, validate,
};

const ABOUT: &str = "Declarative agent swarms: a project folder with a goondan.yaml is checked and run.";

const EXAMPLES: &str = "\
Examples:
  gdn init my-swarm                       Create a project that runs at once, without a key
  gdn validate my-swarm                   Check it; every mistake at once, with file and line
  gdn run my-swarm --input \"Hello\"        Ask once, print the answer
  gdn run my-swarm                        Chat
  gdn instance list                       See which conversations exist

Read on: docs/getting-started.md and docs/cli.md";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "gdn", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 100)]
#[command(arg_required_else_help = true, disable_help_subcommand = true, disable_help_flag = true)]
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
    /// Folder that keeps conversations and logs [default: ~/.goondan]
    #[arg(long, global = true, value_name = "DIR", env = "GOONDAN_STATE_ROOT", hide_env_values = true)]
    pub(crate) state_root: Option<PathBuf>,
    /// Print results and errors as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more (-v: tool calls, -vv: debug log)
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Say only what was asked for, and errors
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
    /// Create a project that validates and runs at once
    Init(init::InitArgs),
    /// Create a part of a project: a tool of your own
    New(new::NewArgs),
    /// Check a project: every mistake of every file in one go
    Validate(validate::ValidateArgs),
    /// Run a swarm: one input, a stream of inputs, or a chat
    Run(run::RunArgs),
    /// Build the tools that say how: `Tool.spec.build`
    Build(build::BuildArgs),
    /// Have a running swarm take up the edited project, or show what that would change
    Reload(reload::ReloadArgs),
    /// List an agent's tools, or call one without a model
    Tool(tool::ToolArgs),
    /// List MCP servers, take them over from other programs, or log in to them
    Mcp(mcp::McpArgs),
    /// Say what the rules of a project allow, and why
    Policy(policy::PolicyArgs),
    /// Say that a project may do what it wants, before it is run
    Trust(trust::TrustArgs),
    /// List, show or delete conversations
    Instance(instance::InstanceArgs),
    /// Show what happened in turns, steps and tool calls
    Logs(logs::LogsArgs),
    /// Print the JSON Schemas of the resource kinds
    Schema(schema::SchemaArgs),
    /// Run conformance cases
    Test(test::TestArgs),
    /// Check this machine and the project in this folder
    Doctor(doctor::DoctorArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Be the process that a tool library with `isolation: process` runs in; started by other commands
    #[command(hide = true)]
    ToolHost(tool_host::ToolHostArgs),
    /// Restrict this process and become a program; started by tools
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
}
