//! Tests of the whole product, and what they share.
//!
//! [`chaos`] kills a running swarm again and again, troubles its nodes and their database, and checks that nothing was lost or
//! repeated. It knows the product only through the facade and the files on disk; [`kills`] kills hosts and `gdn` at each
//! operation of a module; [`failover`] measures how soon turns of a node that is gone go on elsewhere. [`reloads`] reloads a
//! busy swarm and checks that no turn notices, [`hosted`] the same for modules in other languages; [`latency`] measures how
//! fast a watched swarm follows its files, [`measure`] how much a long run costs. [`lines`] runs command lines with and without
//! a shell.

pub mod chaos;
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
