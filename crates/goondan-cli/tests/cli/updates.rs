//! `gdn self update`, from a place on this machine.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::sandbox::{Outcome, Sandbox};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// An installation as the installers leave it, and the place that it came from.
struct Installed {
    sandbox: Sandbox,
    site: PathBuf,
}

impl Installed {
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
        Installed { sandbox, site }
    }

    /// Offers `version`, whose program is a script with these lines.
    fn offer(&self, version: &str, program: &str) -> PathBuf {
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
        let made = Command::new("chmod")
            .arg("+x")
            .arg(folder.join("bin/gdn"))
            .status()
            .unwrap();
        assert!(made.success());
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
        self.sandbox.finished(command)
    }

    fn prefix(&self) -> PathBuf {
        self.sandbox.dir().join("prefix")
    }

    /// The old program answers, nothing lies around, and the receipt is the old one.
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

/// Serves the files below a folder for as long as the test runs, and tells its address.
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
fn a_newer_version_takes_the_place_of_the_old_one() {
    let installed = Installed::new();
    installed.offer("99.0.0", "echo gdn 99.0.0");
    let told = installed.gdn(&["self", "update", "--check", "--json"]);
    let told: Value = serde_json::from_str(told.ok()).unwrap();
    assert_eq!(told["newest"], "99.0.0");
    assert_eq!(
        (&told["isNewer"], &told["updated"]),
        (&json!(true), &json!(false))
    );
    installed.assert_unchanged();

    let told = installed.gdn(&["self", "update"]);
    assert!(told.ok().contains("to 99.0.0"));
    assert_eq!(installed.gdn(&["--version"]).ok(), "gdn 99.0.0\n");
    assert_eq!(installed.receipt()["version"], "99.0.0");
    assert_eq!(
        fs::read_to_string(installed.prefix().join("share/doc/gdn/README.md")).unwrap(),
        "new"
    );
    assert_eq!(
        fs::read_dir(installed.prefix().join("bin"))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn an_older_version_changes_nothing() {
    let installed = Installed::new();
    installed.offer("0.0.1", "echo gdn 0.0.1");
    assert!(
        installed
            .gdn(&["self", "update"])
            .ok()
            .contains("up to date")
    );
    installed.assert_unchanged();
}

#[test]
fn a_tampered_archive_is_refused() {
    let installed = Installed::new();
    let archive = installed.offer("99.0.0", "echo gdn 99.0.0");
    let mut bytes = fs::read(&archive).unwrap();
    bytes.push(0);
    fs::write(&archive, bytes).unwrap();
    let told = installed.gdn(&["self", "update"]);
    assert_eq!(told.code, 1);
    assert!(
        told.stderr.contains("UPDATE_ERROR") && told.stderr.contains("checksum"),
        "{}",
        told.stderr
    );
    installed.assert_unchanged();
}

#[test]
fn a_program_that_does_not_answer_is_refused() {
    for program in ["exit 1", "echo gdn 98.0.0", "exec /nowhere"] {
        let installed = Installed::new();
        installed.offer("99.0.0", program);
        let told = installed.gdn(&["self", "update"]);
        assert_eq!(told.code, 1, "{program}");
        assert!(
            told.stderr.contains("not `gdn 99.0.0`"),
            "{program}: {}",
            told.stderr
        );
        installed.assert_unchanged();
    }
}

#[test]
fn a_place_that_is_gone_is_told() {
    let installed = Installed::new();
    let told = installed.gdn(&["self", "update"]);
    assert_eq!(told.code, 5);
    assert!(told.stderr.contains("404"), "{}", told.stderr);
    installed.assert_unchanged();
}

#[test]
fn without_a_receipt_somebody_else_updates_it() {
    let sandbox = Sandbox::new();
    let told = sandbox.gdn(&["self", "update", "--check"]);
    assert_eq!(told.code, 3);
    assert!(
        told.stderr.contains("was built from source"),
        "{}",
        told.stderr
    );
}
