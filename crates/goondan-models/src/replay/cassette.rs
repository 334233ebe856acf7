//! Reads a cassette: a file with recorded model calls.

use std::path::Path;

use goondan_core::ports::model::ModelError;

use super::entry::CassetteEntry;
use crate::errors::configuration_error;
use crate::files::read_inside;

/// The option with the path of a cassette.
pub(super) const CASSETTE_FIELD: &str = "spec.options.cassette";
/// Maximum size of a cassette, in bytes.
const MAX_CASSETTE_BYTES: u64 = 256 * 1024 * 1024;

/// Returns the entries of the cassette at `path` below `root`. An incomplete last line is ignored.
pub(crate) fn read(root: &Path, path: &str) -> Result<Vec<CassetteEntry>, ModelError> {
    let text = read_inside(root, path, MAX_CASSETTE_BYTES)
        .map_err(|error| error.within(CASSETTE_FIELD, None))?;
    let mut entries = Vec::new();
    for (index, line) in text
        .split_inclusive('\n')
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        match serde_json::from_str(line) {
            Ok(entry) => entries.push(entry),
            Err(_) if !line.ends_with('\n') => {}
            Err(_) => {
                let message = format!("line {} of {path} is not a cassette entry", index + 1);
                let error = configuration_error(
                    message,
                    "record the cassette again with `gdn run --record FILE`",
                );
                return Err(error.within(CASSETTE_FIELD, Some((path.to_owned(), index + 1, 1))));
            }
        }
    }
    Ok(entries)
}
