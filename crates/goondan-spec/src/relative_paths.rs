//! Relative paths with `/`.

/// Joins `folder` and `name`. Both are relative; an empty `folder` is the root.
pub(crate) fn join_relative(folder: &str, name: &str) -> String {
    if folder.is_empty() || folder == "." {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}
