//! Options of every command.

use std::path::PathBuf;

use clap::{ArgAction, Args, ColorChoice};

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Run as if started in this directory
    #[arg(short = 'C', global = true, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Store conversations and logs here [default: ~/.goondan] [env: GOONDAN_STATE_ROOT]
    // With clap's `env`, a set variable counts as an argument. A call without a command would then
    // not print the help.
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
    /// Use colors [default: auto, which means on terminals without NO_COLOR=1]
    #[arg(long, global = true, value_enum, value_name = "WHEN")]
    pub(crate) color: Option<ColorChoice>,
    /// Disable colors
    #[arg(long, global = true, hide = true, conflicts_with = "color")]
    pub(crate) no_color: bool,
    /// Print help: -h in short, --help with explanations and examples
    // clap's own flag switches all options to a four-line layout once one value is documented. This
    // flag keeps the table.
    #[arg(short, long, global = true, action = ArgAction::HelpShort)]
    help: Option<bool>,
}
