//! Tests of the whole product, and the long trials of the `trials` program.
//!
//! The trials use only the public interface and the files on disk:
//!
//! * [`chaos`] disrupts a busy swarm, its nodes and their database, and checks that no input is lost or repeated.
//! * [`failover`] measures how soon the turns of a lost node resume on another node.
//! * [`kills`] kills `gdn` and its runtime processes at each operation of a handler file.
//! * [`reloads`] reloads a busy swarm and checks that no turn is affected; [`hosted`] does so with handler files.
//! * [`latency`] measures how fast a watched swarm follows its files, and [`measure`] the cost of a long run.
//! * [`lines`] runs command lines with and without a shell.

#[cfg(unix)]
pub mod chaos;
#[cfg(unix)]
pub mod failover;
pub mod hosted;
#[cfg(unix)]
pub mod kills;
pub mod latency;
mod library;
#[cfg(unix)]
pub mod lines;
pub mod measure;
mod nested_cargo;
pub mod reloads;
pub mod starts;
