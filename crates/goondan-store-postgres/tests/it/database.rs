//! The test database.

use std::path::PathBuf;
use std::time::Duration;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::WorkspacePaths;
use goondan_store_postgres::{DatabaseAddress, PostgresOpenError, PostgresStore, WorkspaceWait};

/// Maximum wait for a workspace; longer than the idle timeout of a session.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(30);

/// Returns the address of the test database; `None`, with a message, if none is configured.
#[allow(clippy::print_stderr, reason = "a skipped test prints a message")]
pub(crate) fn database() -> Option<DatabaseAddress> {
    let Ok(address) = std::env::var("GOONDAN_TEST_POSTGRES") else {
        eprintln!("skipped: GOONDAN_TEST_POSTGRES names no database; see tests/postgres.sh");
        return None;
    };
    Some(address.parse().unwrap())
}

/// Returns a unique workspace name.
pub(crate) fn new_workspace_name() -> String {
    format!(
        "test-{}",
        std::iter::repeat_with(|| char::from(rand::random_range(b'a'..=b'z')))
            .take(12)
            .collect::<String>()
    )
}

/// Directories that tests do not use.
pub(crate) struct UnusedPaths;

impl WorkspacePaths for UnusedPaths {
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
        Box::new(UnusedPaths),
        WorkspaceWait::For(MAX_WAIT),
    )
    .await
}
