//! Reads a text file whole, and replaces the content of a file in one step.

use std::fs;
use std::io::{Read as _, Write as _};

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

/// The largest file that is read to be changed, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// The whole of a text file that is to be changed.
pub(crate) fn read_text(root: &Root, place: &Place) -> Result<String, ToolError> {
    let (mut file, metadata) = root.open(place)?;
    if metadata.len() > LARGEST {
        let message = format!("`{}` has {} bytes, too many to change ({LARGEST})", place.given, metadata.len());
        return Err(ToolError::new(message).code(errors::TOO_LARGE));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| errors::io(format_args!("read `{}`", place.given), &error))?;
    String::from_utf8(bytes).map_err(|_| {
        ToolError::new(format!("`{}` is no UTF-8 text, so it cannot be changed as text", place.given))
            .code(errors::WRONG_FILE_TYPE)
    })
}

/// Lets everybody who can read a file run it.
pub(crate) fn make_executable(place: &Place) -> Result<(), ToolError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let failed = |error: std::io::Error| errors::io(format_args!("write `{}`", place.given), &error);
        let mode = fs::symlink_metadata(&place.path).map_err(failed)?.permissions().mode();
        let mode = mode | (mode & 0o444) >> 2;
        fs::set_permissions(&place.path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    #[cfg(not(unix))]
    let _ = place;
    Ok(())
}

/// What becomes of a file, as a diff.
pub(crate) fn diff(path: &str, before: &str, after: &str) -> String {
    similar::TextDiff::from_lines(before, after).unified_diff().context_radius(3).header(path, path).to_string()
}
