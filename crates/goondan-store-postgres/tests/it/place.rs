//! The database of the tests.

use std::path::PathBuf;
use std::time::Duration;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::WorkspacePaths;
use goondan_store_postgres::{DatabaseAddress, PostgresOpenError, PostgresStore, WorkspaceWait};

/// Longer than the idle timeout of a session.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the database of the tests; `None`, with a message, if there is none.
#[allow(clippy::print_stderr, reason = "a test says that it skips")]
pub(crate) fn database() -> Option<DatabaseAddress> {
    let Ok(address) = std::env::var("GOONDAN_TEST_POSTGRES") else {
        eprintln!("skipped: GOONDAN_TEST_POSTGRES names no database; see tests/postgres.sh");
        return None;
    };
    Some(address.parse().unwrap())
}

/// Returns a unique workspace name.
pub(crate) fn fresh() -> String {
    format!(
        "test-{}",
        std::iter::repeat_with(|| char::from(rand::random_range(b'a'..=b'z')))
            .take(12)
            .collect::<String>()
    )
}

/// Directories that no test uses.
pub(crate) struct Nowhere;

impl WorkspacePaths for Nowhere {
    fn workdir(&self, _id: &InstanceId) -> PathBuf {
        PathBuf::from("/nowhere")
    }

    fn output_file(&self, _id: &InstanceId, name: &str) -> PathBuf {
        PathBuf::from("/nowhere").join(name)
    }
}

pub(crate) async fn open(
    address: &DatabaseAddress,
    workspace: &str,
) -> Result<PostgresStore, PostgresOpenError> {
    PostgresStore::open(
        address,
        workspace,
        Box::new(Nowhere),
        WorkspaceWait::For(PATIENCE),
    )
    .await
}
