//! Replaces the content of a file in one step.

use std::fs;
use std::io::Write as _;

use goondan_runtime::ports::tool::ToolError;

use crate::errors;
use crate::paths::{Place, Root};

/// Puts `content` in the place of what the file held, or makes the file. Whoever reads meanwhile sees the old or the
/// new content, never a part. The mode of an existing file is kept. The folder must exist.
pub(crate) fn replace(root: &Root, place: &Place, content: &[u8]) -> Result<(), ToolError> {
    let failed = |error: std::io::Error| errors::io(format_args!("write `{}`", place.given), &error);
    let old = fs::symlink_metadata(&place.path).ok();
    if let Some(old) = &old
        && !old.is_file()
    {
        let kind = if old.is_dir() { "it is a folder" } else { "it is not a regular file" };
        let message = format!("cannot write `{}`: {kind}", place.given);
        return Err(ToolError::new(message).code(errors::WRONG_FILE_TYPE));
    }
    let folder = place.path.parent().unwrap_or(root.folder());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tmp-");
    // The temporary file would else be private; the umask still applies to this.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    if let Some(old) = old {
        file.as_file().set_permissions(old.permissions()).map_err(failed)?;
    }
    root.check_again(place)?;
    file.persist(&place.path).map_err(|error| failed(error.error))?;
    Ok(())
}
