//! The browser of whoever sits here.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use goondan::inside::private;

/// The file of a workspace that leads a browser to the studio.
const WAY_IN: &str = "studio.html";

/// Opens a page of the web as the desktop does. Where there is none, the address was printed. What is no page of the web is not opened:
/// the desktop would start a program that a stranger has chosen.
pub(crate) fn open(page: &str) {
    if page.starts_with("https://") || page.starts_with("http://") {
        start(page);
    }
}

fn start(what: &str) {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let mut command = Command::new(program);
    let _ = command
        .arg(what)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
}

/// Opens an address that is a secret: every user of this machine may see the arguments of programs, so it goes through a file
/// that only this user can read.
pub(crate) fn open_secretly(address: &str, workspace: &Path) -> io::Result<()> {
    let page = format!(
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={address}\"><title>gdn studio</title>\n"
    );
    let path = workspace.join(WAY_IN);
    private::replace(&path, page.as_bytes())?;
    start(&path.to_string_lossy());
    Ok(())
}
