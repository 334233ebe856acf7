//! One conversation that goes on and on.

use std::time::Duration;

use super::Setup;
use crate::figures::{Run, median};
use crate::gdn::{Gdn, Usage};
use crate::projects;
use crate::server::{Exchange, round_trip};

/// How many steps at either end are compared.
const WINDOW: usize = 20;

/// What a tool step costs beyond the model: the time from an answer to the next request, less the raw round trip of a request
/// of that size. How long the server thinks about its answer, which grows as well, is not counted.
pub(super) fn steps(setup: &Setup, count: usize) -> anyhow::Result<Run> {
    let behaviour = format!(r#"calls:{count}:json-query__count:{{"data":"[1, 2]"}}"#);
    projects::one_agent(
        &setup.project,
        &setup.server.endpoint(),
        &behaviour,
        &["Tool/json-query"],
    )?;
    let (exchanges, usage) = one_turn(&setup.gdn, setup, count)?;
    // The first step opens the conversation and the connection.
    let (first, last) = (
        window(&exchanges[1..]),
        window(&exchanges[exchanges.len() - WINDOW - 1..]),
    );
    let of_first = overhead(setup, first)?;
    let of_last = overhead(setup, last)?;
    let whole = exchanges[count].came - exchanges[0].came;
    Ok(Run::default()
        .millis("step", whole / u32::try_from(count)?)
        .millis("overhead_first_20", of_first.time)
        .millis("overhead_last_20", of_last.time)
        .with(
            "last_to_first_ratio",
            of_last.time.as_secs_f64() / of_first.time.as_secs_f64(),
        )
        .millis("raw_round_trip_first", of_first.raw)
        .millis("raw_round_trip_last", of_last.raw)
        .with(
            "cpu_ms_per_step",
            usage.cpu.as_secs_f64() * 1e3 / count as f64,
        ))
}

/// The median step of a turn of `count` steps, beyond the raw round trip.
pub(super) fn one_step(gdn: &Gdn, setup: &Setup, count: usize) -> anyhow::Result<Duration> {
    let (exchanges, _) = one_turn(gdn, setup, count)?;
    let step = median(
        exchanges[1..]
            .windows(2)
            .map(|pair| pair[1].came - pair[0].left)
            .collect(),
    );
    let raw = round_trip(setup.server.address(), exchanges[count / 2].bytes, 100)?;
    Ok(step.saturating_sub(raw))
}

/// Runs the project's one turn, which has `count` steps.
fn one_turn(gdn: &Gdn, setup: &Setup, count: usize) -> anyhow::Result<(Vec<Exchange>, Usage)> {
    // Round trips that were measured before are none of the turn's.
    setup.server.take();
    let mut swarm = gdn.serve(&setup.project)?;
    swarm.send("main", "go")?;
    swarm.result()?;
    let usage = swarm.usage()?;
    swarm.end()?;
    let exchanges = setup.server.take();
    anyhow::ensure!(
        exchanges.len() == count + 1,
        "{} model calls instead of {}",
        exchanges.len(),
        count + 1
    );
    Ok((exchanges, usage))
}

fn window(exchanges: &[Exchange]) -> &[Exchange] {
    &exchanges[..=WINDOW]
}

struct Overhead {
    time: Duration,
    raw: Duration,
}

fn overhead(setup: &Setup, exchanges: &[Exchange]) -> anyhow::Result<Overhead> {
    let step = median(
        exchanges
            .windows(2)
            .map(|pair| pair[1].came - pair[0].left)
            .collect(),
    );
    let raw = round_trip(setup.server.address(), exchanges[WINDOW / 2].bytes, 100)?;
    Ok(Overhead {
        time: step.saturating_sub(raw),
        raw,
    })
}

/// What a request of an agent to another costs beyond the two model calls that it needs.
pub(super) fn requests(setup: &Setup, count: usize) -> anyhow::Result<Run> {
    projects::two_agents(&setup.project, &setup.server.endpoint(), count)?;
    let mut swarm = setup.gdn.serve(&setup.project)?;
    swarm.send("main", "go")?;
    swarm.result()?;
    swarm.end()?;
    let exchanges = setup.server.take();
    let asks: Vec<&Exchange> = exchanges
        .iter()
        .filter(|exchange| exchange.model != "text")
        .collect();
    anyhow::ensure!(
        asks.len() == count + 1,
        "{} questions instead of {count}",
        asks.len()
    );
    let whole = median(
        asks.windows(2)
            .skip(WINDOW)
            .map(|pair| pair[1].came - pair[0].left)
            .collect(),
    );
    let raw = round_trip(setup.server.address(), asks[count / 2].bytes, 100)?;
    // One call of each of the two models.
    Ok(Run::default()
        .millis("request", whole)
        .millis("overhead", whole.saturating_sub(2 * raw))
        .millis("raw_round_trip", raw))
}
