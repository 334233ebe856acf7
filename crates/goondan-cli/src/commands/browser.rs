//! Opens a page in the user's browser.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use goondan::internal::{directory_outside_projects, private_files};

/// Opens a URL in the default browser with the page `file`, which redirects to the URL. Other users
/// of this machine can read program arguments, and the URL can contain a secret, so the file is
/// private. Does nothing for a URL that is not a web page: the desktop would start a program that an
/// outsider chose.
pub(crate) fn open(url: &str, file: &Path) -> io::Result<()> {
    let is_web_page = url.starts_with("https://") || url.starts_with("http://");
    if !is_web_page {
        return Ok(());
    }
    if let Some(directory) = file.parent() {
        private_files::create_directory(directory)?;
    }
    private_files::replace(file, redirect_page(url).as_bytes())?;
    start_desktop_opener(&std::path::absolute(file)?);
    Ok(())
}

/// Returns a page that redirects to `url`.
fn redirect_page(url: &str) -> String {
    let url = url
        .replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;");
    format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
        <meta http-equiv=\"refresh\" content=\"0;url={url}\"><title>gdn</title>\n"
    )
}

/// Opens a file with the desktop's opener. Errors are ignored, because the URL is also printed.
fn start_desktop_opener(file: &Path) {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let mut command = Command::new(program);
    let _ = command
        .arg(file)
        .current_dir(directory_outside_projects())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_page_contains_the_url_as_text() {
        let page = redirect_page("https://a.example/?x=1&lt;y=\"><script>");
        assert!(
            page.contains("content=\"0;url=https://a.example/?x=1&amp;lt;y=&quot;>&lt;script>\""),
            "{page}"
        );
    }

    #[test]
    fn urls_with_other_schemes_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.html");
        for url in ["file:///etc/passwd", "javascript:x", "vscode://x", ""] {
            open(url, &file).unwrap();
            assert!(!file.exists(), "{url}");
        }
    }
}
