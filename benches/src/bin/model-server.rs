//! The model server alone, for measuring other programs: `model-server 8080`.

#![allow(clippy::print_stdout, reason = "the address is the program's result")]

use anyhow::Context;
use goondan_benches::server::ModelServer;

fn main() -> anyhow::Result<()> {
    let port = std::env::args()
        .nth(1)
        .map_or(Ok(0), |port| port.parse())
        .context("the port is a number")?;
    let server = ModelServer::start(port)?;
    println!("{}", server.endpoint());
    loop {
        std::thread::park();
    }
}
