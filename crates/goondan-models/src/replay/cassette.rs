//! Reads a cassette.

use std::path::Path;

use goondan_core::ports::model::ModelError;

use super::entry::Entry;
use crate::error::configuration;
use crate::files::read_inside;

/// The largest cassette, in bytes.
const LIMIT: u64 = 256 * 1024 * 1024;

/// The entries of the cassette at `path` below `root`. A last line that was cut off while it was written is left out.
pub(crate) fn read(root: &Path, path: &str) -> Result<Vec<Entry>, ModelError> {
    let text = read_inside(root, path, LIMIT)?;
    let mut entries = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(entry) => entries.push(entry),
            Err(_) if !line.ends_with('\n') => {}
            Err(error) => {
                return Err(configuration(
                    format!("{path}:{}: this is not a line of a cassette: {error}", index + 1),
                    "record it again with `gdn run --record FILE`",
                ));
            }
        }
    }
    Ok(entries)
}
