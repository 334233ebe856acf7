//! The folder that a call works in: it is there, and still where it was meant to be.

use std::io;
use std::path::{Path, PathBuf};

use goondan_core::ports::tool::ToolError;
use goondan_core::private;
use goondan_core::real_path::real_path;
use goondan_spec::Code;

use super::dispatch::ToolCallContext;

/// The working folder of a call, free of links. It is made where there is none. Links in its path may have changed since it was
/// named, and then it may be anywhere, so that is looked at for each call.
pub(super) async fn settle(context: &ToolCallContext) -> Result<PathBuf, ToolError> {
    let workdir = &context.facts.workdir;
    let real = inside(context.facts.anchor.as_deref(), workdir)?;
    if !workdir.is_dir() {
        let is_own = *workdir == context.engine.store.workdir(&context.facts.instance);
        make(workdir, is_own).await.map_err(|cause| {
            ToolError::new(format!(
                "failed to make the working folder {}: {cause}",
                workdir.display()
            ))
        })?;
    }
    // Windows writes real paths in a way of its own, which programs do not expect.
    Ok(if cfg!(unix) { real } else { workdir.clone() })
}

/// The instance's own folder is part of its state; any other is the project's.
async fn make(workdir: &Path, is_own: bool) -> io::Result<()> {
    match is_own {
        true => private::make_folder(workdir),
        false => tokio::fs::create_dir_all(workdir).await,
    }
}

/// Where `workdir` really is; an error where that is not in `anchor`.
fn inside(anchor: Option<&Path>, workdir: &Path) -> Result<PathBuf, ToolError> {
    let real = real_path(workdir).unwrap_or_else(|_| workdir.to_owned());
    if anchor.is_some_and(|anchor| !real.starts_with(anchor)) {
        let message = format!(
            "the working folder {} leads elsewhere by a link",
            workdir.display()
        );
        return Err(ToolError::new(message)
            .code(Code::TOOL_PATH_ESCAPE)
            .suggest("Put a folder in the place of the link."));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_out_of_the_anchor_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let anchor = folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir_all(anchor.join("sub")).unwrap();
        for (name, target) in [
            ("up", ".."),
            ("root", "/"),
            ("later", "../not-there-yet"),
            ("down", "sub"),
        ] {
            std::os::unix::fs::symlink(target, anchor.join(name)).unwrap();
        }
        for name in ["up", "root", "later", "up/x"] {
            assert!(inside(Some(&anchor), &anchor.join(name)).is_err(), "{name}");
        }
        assert_eq!(
            inside(Some(&anchor), &anchor.join("down")).unwrap(),
            anchor.join("sub")
        );
        // A folder that was named as it really is must stay that.
        let named = anchor.join("moved");
        assert!(inside(Some(&named), &named).is_ok());
        std::os::unix::fs::symlink("/", &named).unwrap();
        assert!(inside(Some(&named), &named).is_err());
    }
}
