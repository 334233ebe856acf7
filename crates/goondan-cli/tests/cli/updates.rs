//! `gdn self update`, from a download site on this machine.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::sandbox::{Outcome, Sandbox};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// An installation as the installers create it, and its download site.
struct ProgramInstallation {
    sandbox: Sandbox,
    site: PathBuf,
}

impl ProgramInstallation {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let (prefix, site) = (sandbox.dir().join("prefix"), sandbox.dir().join("site"));
        fs::create_dir_all(prefix.join("bin")).unwrap();
        fs::create_dir_all(prefix.join("share/gdn")).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_gdn"), prefix.join("bin/gdn"))
            .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_gdn"), prefix.join("bin/gdn")).map(drop))
            .unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let receipt = json!({ "version": version, "target": TARGET, "base": serve(site.clone()) });
        fs::write(prefix.join("share/gdn/receipt.json"), receipt.to_string()).unwrap();
        ProgramInstallation { sandbox, site }
    }

    /// Publishes `version`, whose program is a shell script with the lines `program`.
    fn publish(&self, version: &str, program: &str) -> PathBuf {
        let name = format!("gdn-{version}-{TARGET}");
        let folder = self.sandbox.dir().join(&name);
        for below in ["bin", "share/doc/gdn"] {
            fs::create_dir_all(folder.join(below)).unwrap();
        }
        fs::write(folder.join("bin/gdn"), format!("#!/bin/sh\n{program}\n")).unwrap();
        fs::write(folder.join("share/doc/gdn/README.md"), "new").unwrap();
        let files = self.site.join(format!("download/v{version}"));
        fs::create_dir_all(&files).unwrap();
        fs::create_dir_all(self.site.join("latest/download")).unwrap();
        let archive = files.join(format!("{name}.tar.gz"));
        let status = Command::new("chmod")
            .arg("+x")
            .arg(folder.join("bin/gdn"))
            .status()
            .unwrap();
        assert!(status.success());
        let tar = Command::new("tar")
            .arg("-czf")
            .arg(&archive)
            .arg("-C")
            .arg(self.sandbox.dir())
            .arg(&name)
            .status();
        assert!(tar.unwrap().success());
        let sum: String = Sha256::digest(fs::read(&archive).unwrap())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        fs::write(
            self.site.join("latest/download/SHA256SUMS"),
            format!("{sum}  {name}.tar.gz\n"),
        )
        .unwrap();
        archive
    }

    fn gdn(&self, arguments: &[&str]) -> Outcome {
        let mut command = Command::new(self.prefix().join("bin/gdn"));
        command
            .args(arguments)
            .current_dir(self.sandbox.dir())
            .env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        self.sandbox.run_command(command)
    }

    fn prefix(&self) -> PathBuf {
        self.sandbox.dir().join("prefix")
    }

    /// Asserts that the old program and receipt are in place, without other files.
    fn assert_unchanged(&self) {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            self.gdn(&["--version"]).ok().trim(),
            format!("gdn {version}")
        );
        assert_eq!(fs::read_dir(self.prefix().join("bin")).unwrap().count(), 1);
        assert_eq!(self.receipt()["version"], version);
        assert!(!self.prefix().join("share/doc").exists());
    }

    fn receipt(&self) -> Value {
        serde_json::from_slice(&fs::read(self.prefix().join("share/gdn/receipt.json")).unwrap())
            .unwrap()
    }
}

/// Serves the files below a directory during the test. Returns the address.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut piece = [0; 1024];
            while !request.ends_with(b"\r\n\r\n") {
                let read = stream.read(&mut piece).unwrap();
                request.extend_from_slice(&piece[..read]);
            }
            let request = String::from_utf8(request).unwrap();
            let path = request.split(' ').nth(1).unwrap().trim_start_matches('/');
            let (status, body) = match fs::read(Path::new(&folder).join(path)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&body).unwrap();
        }
    });
    address
}

#[test]
fn self_update_installs_a_newer_version() {
    let installation = ProgramInstallation::new();
    installation.publish("99.0.0", "echo gdn 99.0.0");
    let outcome = installation.gdn(&["self", "update", "--check", "--json"]);
    let outcome: Value = serde_json::from_str(outcome.ok()).unwrap();
    assert_eq!(outcome["newest"], "99.0.0");
    assert_eq!(
        (&outcome["isNewer"], &outcome["updated"]),
        (&json!(true), &json!(false))
    );
    installation.assert_unchanged();

    let outcome = installation.gdn(&["self", "update"]);
    assert!(outcome.ok().contains("to 99.0.0"));
    assert_eq!(installation.gdn(&["--version"]).ok(), "gdn 99.0.0\n");
    assert_eq!(installation.receipt()["version"], "99.0.0");
    assert_eq!(
        fs::read_to_string(installation.prefix().join("share/doc/gdn/README.md")).unwrap(),
        "new"
    );
    assert_eq!(
        fs::read_dir(installation.prefix().join("bin"))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn an_older_version_changes_nothing() {
    let installation = ProgramInstallation::new();
    installation.publish("0.0.1", "echo gdn 0.0.1");
    assert!(
        installation
            .gdn(&["self", "update"])
            .ok()
            .contains("up to date")
    );
    installation.assert_unchanged();
}

#[test]
fn a_tampered_archive_is_refused() {
    let installation = ProgramInstallation::new();
    let archive = installation.publish("99.0.0", "echo gdn 99.0.0");
    let mut bytes = fs::read(&archive).unwrap();
    bytes.push(0);
    fs::write(&archive, bytes).unwrap();
    let outcome = installation.gdn(&["self", "update"]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("UPDATE_ERROR") && outcome.stderr.contains("checksum"),
        "{}",
        outcome.stderr
    );
    installation.assert_unchanged();
}

#[test]
fn self_update_refuses_a_program_without_the_expected_version() {
    for program in ["exit 1", "echo gdn 98.0.0", "exec /nowhere"] {
        let installation = ProgramInstallation::new();
        installation.publish("99.0.0", program);
        let outcome = installation.gdn(&["self", "update"]);
        assert_eq!(outcome.code, 1, "{program}");
        assert!(
            outcome.stderr.contains("not `gdn 99.0.0`"),
            "{program}: {}",
            outcome.stderr
        );
        installation.assert_unchanged();
    }
}

#[test]
fn self_update_reports_a_missing_download_site() {
    let installation = ProgramInstallation::new();
    let outcome = installation.gdn(&["self", "update"]);
    assert_eq!(outcome.code, 5);
    assert!(outcome.stderr.contains("404"), "{}", outcome.stderr);
    installation.assert_unchanged();
}

#[test]
fn self_update_without_a_receipt_is_refused() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.gdn(&["self", "update", "--check"]);
    assert_eq!(outcome.code, 3);
    assert!(
        outcome.stderr.contains("was built from source"),
        "{}",
        outcome.stderr
    );
}
