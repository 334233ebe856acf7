//! Drives the `gdn` binary as a person, a script or another program does.

mod documentation;
mod help;
mod init;
mod instances;
mod interrupt;
mod misuse;
mod projects;
mod run;
mod sandbox;
mod schema;
mod stream;
mod tool;
mod validate;
