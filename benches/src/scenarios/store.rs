//! What the durable store costs, and how much of that is the disk.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Setup;
use crate::figures::{Run, median};
use crate::gdn::Gdn;
use crate::projects;

const TURNS: usize = 1_000;

/// Turns one after another over the scripted model: on the disk, and on a file system in memory.
pub(super) fn turns(setup: &Setup) -> anyhow::Result<Run> {
    projects::scripted(&setup.project)?;
    let on_disk = turn(&setup.gdn, &setup.project)?;
    let memory = tempfile::tempdir_in("/dev/shm")?;
    let in_memory = Gdn {
        state: memory.path().join("state"),
        ..setup.gdn.clone()
    };
    let in_memory = turn(&in_memory, &setup.project)?;
    let sync = sync(&setup.project)?;
    let disk = on_disk.saturating_sub(in_memory);
    Ok(Run::default()
        .millis("turn", on_disk)
        .millis("turn_in_memory", in_memory)
        .millis("sync", sync)
        .with(
            "syncs_a_turn",
            disk.as_secs_f64() / sync.as_secs_f64().max(1e-9),
        ))
}

/// The median time from an input to its result.
fn turn(gdn: &Gdn, project: &Path) -> anyhow::Result<Duration> {
    let mut swarm = gdn.serve(project)?;
    let mut took = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let began = Instant::now();
        swarm.send("main", "go")?;
        swarm.result()?;
        took.push(began.elapsed());
    }
    swarm.end()?;
    Ok(median(took))
}

/// The median time of appending a record to a file and having it on the disk.
fn sync(folder: &Path) -> anyhow::Result<Duration> {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("synced"))?;
    let mut took = Vec::new();
    for _ in 0..200 {
        file.write_all(&[b'x'; 400])?;
        let began = Instant::now();
        file.sync_data()?;
        took.push(began.elapsed());
    }
    Ok(median(took))
}
