//! Command lines of a small grammar: all shells read them alike, and they can run without a shell.
//!
//! A line contains commands in pipelines (`|`), lists (`&&`, `||`, `;`, line breaks) and groups
//! (`(…)`). Words consist of plain and quoted text, `*` and `?`, and `"$(…)"`. Streams can be
//! redirected to files and to each other. Everything else needs a shell, and no policy can judge it
//! in advance.

mod parse;
mod shells;
mod syntax_tree;

pub use parse::{ShellRequired, parse};
pub use syntax_tree::{
    CD_COMMAND, CommandGroup, CommandScript, CommandWord, PipelineStage, RedirectTarget,
    ScriptStep, ShellCommand, StepCondition, StreamRedirect, WordPiece, is_path_inside,
};
