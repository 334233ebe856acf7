//! A PostgreSQL of the benchmark's own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use crate::gdn::{Gdn, Usage};

/// What starts it, seen from the top of the repository.
const SCRIPT: &str = "tests/postgres.sh";

/// A running server, on a socket in a temporary folder. It ends with its standard input.
pub struct Postgres {
    child: Child,
    address: String,
    data: PathBuf,
}

impl Postgres {
    /// Starts it, as it is by default: each commit that is waited for is on the disk.
    pub fn start() -> anyhow::Result<Self> {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("the crate has no folder above it")?;
        let mut command = Command::new(top.join(SCRIPT));
        command.args([
            "sh",
            "-c",
            r#"echo "$GOONDAN_TEST_POSTGRES"; echo "$GOONDAN_TEST_POSTGRES_CONTROL"; cat"#,
        ]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context(SCRIPT)?;
        let mut lines = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let mut line = || {
            anyhow::Ok(
                lines
                    .next()
                    .with_context(|| format!("{SCRIPT} has started no PostgreSQL"))??,
            )
        };
        let (address, control) = (line()?, line()?);
        let (_, data) = control
            .split_once(" -D ")
            .context("the folder of the data is not told")?;
        Ok(Postgres {
            child,
            data: data.into(),
            address,
        })
    }

    /// The command, with its conversations there.
    pub fn with(&self, gdn: &Gdn) -> Gdn {
        let mut gdn = gdn.clone();
        gdn.variables
            .push(("GOONDAN_STORE".to_owned(), self.address.clone()));
        gdn
    }

    /// The time that all its processes have used so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let text = std::fs::read_to_string(self.data.join("postmaster.pid"))?;
        let postmaster: u32 = text.lines().next().context("no process")?.parse()?;
        let mut sum = Usage::with_ended(postmaster)?;
        let children =
            std::fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children"))?;
        for child in children.split_whitespace() {
            // One that has just ended is counted by its parent.
            sum += child
                .parse()
                .ok()
                .and_then(|child| Usage::of(child).ok())
                .unwrap_or_default()
                .cpu;
        }
        Ok(sum)
    }

    /// Runs statements.
    pub fn run(&self, sql: &str) -> anyhow::Result<()> {
        let mut psql = Command::new("psql");
        psql.args(["-q", "-v", "ON_ERROR_STOP=1", &self.address])
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut psql = psql.spawn().context("psql")?;
        psql.stdin
            .take()
            .context("no standard input")?
            .write_all(sql.as_bytes())?;
        let status = psql.wait()?;
        anyhow::ensure!(status.success(), "psql ended with {status}");
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // What it left is in a temporary folder.
        let _ = self.child.wait();
    }
}
