//! Opens a page in the user's browser.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use goondan::internal::{directory_outside_projects, private_files};

/// File in the workspace that redirects a browser to the studio.
const STUDIO_REDIRECT_FILE: &str = "studio.html";

/// Opens a web page in the default browser. Errors are ignored, because the URL is also printed.
/// Other URLs are not opened: the desktop would start a program that an outsider chose.
pub(crate) fn open(page: &str) {
    if page.starts_with("https://") || page.starts_with("http://") {
        start_desktop_opener(page);
    }
}

/// Opens a URL or a file with the desktop's opener. Errors are ignored.
fn start_desktop_opener(target: &str) {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let mut command = Command::new(program);
    let _ = command
        .arg(target)
        .current_dir(directory_outside_projects())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
}

/// Opens a URL that contains a secret.
/// Other users of this machine can read program arguments, so the URL is passed in a private file.
pub(crate) fn open_secretly(address: &str, workspace: &Path) -> io::Result<()> {
    let page = format!(
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={address}\"><title>gdn \
        studio</title>\n"
    );
    let path = workspace.join(STUDIO_REDIRECT_FILE);
    private_files::replace(&path, page.as_bytes())?;
    start_desktop_opener(&std::path::absolute(path)?.to_string_lossy());
    Ok(())
}
