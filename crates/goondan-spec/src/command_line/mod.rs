//! Command lines of a small grammar: what every shell reads alike, and what can be started without one.
//!
//! A line is commands in pipelines (`|`), lists (`&&`, `||`, `;`, line breaks) and groups (`(…)`); their words are plain
//! text, quoted text, `*` and `?`, and `"$(…)"`; their streams go to files and to each other. Everything else takes a
//! shell, which nobody can judge beforehand.

mod parse;
mod script;
mod shells;

pub use parse::{Beyond, parse};
pub use script::{
    CD, Command, Group, Piece, Redirect, Script, Stage, Step, Target, When, Word, stays_inside,
};
