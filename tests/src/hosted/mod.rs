//! Reloads tools and extensions in TypeScript and Python, and a library, while calls come all the time, and checks that none
//! fails and none is answered by code that was replaced before it began.
//!
//! Each turn calls three tools at once, and two extensions wrap each call. All of them say which edit they are of ([`project`]).
//! [`driver`] sends turns at a steady pace, reloads and compares.

mod driver;
mod project;

use anyhow::{Context, bail};

/// What a run does.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// How often it reloads.
    reloads: u32,
    /// Calls a second.
    calls: u32,
    /// Turns between two reloads: every edit serves some.
    between: u64,
}

/// Runs the reloads of the command line.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let plan = parse(arguments)?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(driver::run(plan))
}

fn parse(arguments: &[String]) -> anyhow::Result<Plan> {
    let mut plan = Plan {
        reloads: 100,
        calls: 100,
        between: 2,
    };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else {
            bail!("{} needs a value", pair[0])
        };
        let number = value
            .parse()
            .with_context(|| format!("{name} takes a whole number, not `{value}`"))?;
        match name.as_str() {
            "--reloads" => plan.reloads = number,
            "--calls" => plan.calls = number.max(1),
            "--between" => plan.between = u64::from(number.max(1)),
            _ => bail!("there is no option {name}; there are --reloads, --calls and --between"),
        }
    }
    Ok(plan)
}
