//! The `gdn` command.
fn main() {}
