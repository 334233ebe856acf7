use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use goondan_spec::Code;
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};
use tempfile::tempdir;

use super::{entry_names, pack, pack_as_is, unpack};

/// Writes an entry with an unvalidated name, as only a malicious archive contains it.
fn raw(
    builder: &mut Builder<impl std::io::Write>,
    kind: EntryType,
    name: &[u8],
    link: &str,
    content: &[u8],
) {
    let mut header = Header::new_ustar();
    let field = &mut header.as_mut_bytes()[..100];
    field[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o4777);
    header.set_link_name_literal(link).unwrap();
    header.set_cksum();
    builder.append(&header, content).unwrap();
}

/// An entry of an archive: its kind, its name, and its link target.
type Written<'w> = (EntryType, &'w [u8], &'w str);

fn archive(entries: &[Written<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    raw(
        &mut builder,
        EntryType::Regular,
        b"package/goondan.yaml",
        "",
        b"x",
    );
    for (kind, name, link) in entries {
        let content: &[u8] = if *kind == EntryType::Regular {
            b"evil"
        } else {
            b""
        };
        raw(&mut builder, *kind, name, link, content);
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// Lists all files below a directory, without following links.
fn listed(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            found.extend(listed(&entry.path()));
        }
    }
    found.sort();
    found
}

/// Returns true if the archive is refused and nothing is written outside of the target directory.
fn is_refused(archive: &[u8]) -> bool {
    let place = tempdir().unwrap();
    let into = place.path().join("into");
    fs::create_dir(&into).unwrap();
    let outcome = unpack(archive, &into);
    let outside: Vec<_> = listed(place.path())
        .into_iter()
        .filter(|path| !Path::new(path).starts_with(&into))
        .collect();
    assert!(outside.is_empty(), "{outside:?}");
    outcome.is_err_and(|error| error.code == Code::PACKAGE_ARCHIVE)
}

#[test]
fn attacks_are_refused() {
    use EntryType as E;
    let long = format!("package/{}", "x".repeat(90));
    let attacks: &[(&str, &[Written<'_>])] = &[
        ("climbs", &[(E::Regular, b"package/../../evil", "")]),
        ("climbs from the top", &[(E::Regular, b"../evil", "")]),
        (
            "hides its climb",
            &[(E::Regular, b"package/a/./../../../evil", "")],
        ),
        ("is absolute", &[(E::Regular, b"/tmp/gdn-evil", "")]),
        ("has a drive", &[(E::Regular, b"package/C:evil", "")]),
        (
            "has a stream",
            &[(E::Regular, b"package/goondan.yaml:evil", "")],
        ),
        ("has a backslash", &[(E::Regular, b"package\\..\\evil", "")]),
        (
            "has a link to outside",
            &[
                (E::Symlink, b"package/l", "/etc"),
                (E::Regular, b"package/l/evil", ""),
            ],
        ),
        (
            "has a link inside",
            &[(E::Symlink, b"package/l", "goondan.yaml")],
        ),
        ("has a hard link", &[(E::Link, b"package/l", "/etc/passwd")]),
        ("has a device", &[(E::Char, b"package/null", "")]),
        ("has a block device", &[(E::Block, b"package/disk", "")]),
        ("has a pipe", &[(E::Fifo, b"package/pipe", "")]),
        (
            "has a sparse file",
            &[(E::GNUSparse, b"package/sparse", "")],
        ),
        ("has an unknown entry", &[(E::new(b'Z'), b"package/z", "")]),
        (
            "names a file twice",
            &[(E::Regular, b"package/goondan.yaml", "")],
        ),
        (
            "names a file in two cases",
            &[(E::Regular, b"package/GOONDAN.yaml", "")],
        ),
        (
            "has a folder in two cases",
            &[
                (E::Regular, b"package/a/x", ""),
                (E::Regular, b"package/A/y", ""),
            ],
        ),
        (
            "has a file where a folder is",
            &[
                (E::Regular, b"package/a/x", ""),
                (E::Regular, b"package/a", ""),
            ],
        ),
        (
            "has a folder where a file is",
            &[(E::Regular, b"package/goondan.yaml/x", "")],
        ),
        (
            "names a device of Windows",
            &[(E::Regular, b"package/CON", "")],
        ),
        (
            "names a device with an ending",
            &[(E::Regular, b"package/lpt1.txt", "")],
        ),
        (
            "ends in a dot",
            &[(E::Regular, b"package/goondan.yaml.", "")],
        ),
        (
            "ends in a space",
            &[(E::Regular, b"package/goondan.yaml ", "")],
        ),
        ("has a line break", &[(E::Regular, b"package/a\nb", "")]),
        ("has an escape", &[(E::Regular, b"package/\x1b[31m", "")]),
        ("is not text", &[(E::Regular, b"package/\xff\xfe", "")]),
        ("has an empty part", &[(E::Regular, b"package//x", "")]),
        ("lies in two folders", &[(E::Regular, b"other/x", "")]),
        (
            "brings installed packages",
            &[(E::Regular, b"package/.goondan/installed/x", "")],
        ),
        ("lies in none", &[(E::Regular, b"x", "")]),
    ];
    assert!(!is_refused(&archive(&[
        (E::Regular, long.as_bytes(), ""),
        (E::Directory, b"package/d/", "")
    ])));
    for (what, entries) in attacks {
        assert!(is_refused(&archive(entries)), "{what}");
    }
}

#[test]
fn archives_that_are_too_much_are_refused() {
    // 64 MiB of zeros compress to 64 KiB.
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    let mut builder = Builder::new(&mut bomb);
    let mut header = Header::new_gnu();
    header.set_size(64 * 1024 * 1024);
    header.set_mode(0o644);
    builder
        .append_data(&mut header, "package/zeros", std::io::repeat(0).take_64())
        .unwrap();
    builder.finish().unwrap();
    drop(builder);
    assert!(is_refused(&bomb.finish().unwrap()));
    // Very many empty files.
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for number in 0..10_001 {
        raw(
            &mut builder,
            EntryType::Regular,
            format!("package/{number}").as_bytes(),
            "",
            b"",
        );
    }
    assert!(is_refused(&builder.into_inner().unwrap().finish().unwrap()));
    // Very deep directories.
    let deep = format!("package/{}x", "a/".repeat(40));
    assert!(is_refused(&archive(&[(
        EntryType::Regular,
        deep.as_bytes(),
        ""
    )])));
    // A wrong size: the archive ends early.
    let whole = archive(&[]);
    let mut tar = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&whole[..]), &mut tar).unwrap();
    let mut half = GzEncoder::new(Vec::new(), Compression::fast());
    half.write_all(&tar[..512]).unwrap();
    assert!(is_refused(&half.finish().unwrap()));
    for nothing in [&b""[..], b"x", b"\x1f\x8b", &archive(&[])[..20]] {
        assert!(is_refused(nothing));
    }
}

trait Zeros {
    fn take_64(self) -> std::io::Take<std::io::Repeat>;
}

impl Zeros for std::io::Repeat {
    fn take_64(self) -> std::io::Take<std::io::Repeat> {
        std::io::Read::take(self, 64 * 1024 * 1024)
    }
}

#[test]
#[cfg(unix)]
fn of_a_mode_only_counts_whether_a_file_may_be_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempdir().unwrap();
    unpack(&archive(&[]), place.path()).unwrap();
    let mode = fs::metadata(place.path().join("goondan.yaml"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7022, 0);
    assert_eq!(mode & 0o100, 0o100);
}

#[test]
fn the_same_files_make_the_same_bytes() {
    let place = tempdir().unwrap();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    let names = ["goondan.yaml", "tools/a.ts", "tools/b.ts"];
    for (folder, names) in [
        (&one, names.to_vec()),
        (&two, names.iter().rev().copied().collect()),
    ] {
        for name in names {
            fs::create_dir_all(folder.join("tools")).unwrap();
            fs::write(folder.join(name), name).unwrap();
        }
    }
    assert_eq!(pack(&one).unwrap().archive, pack(&two).unwrap().archive);
    let out = place.path().join("out");
    fs::create_dir(&out).unwrap();
    unpack(&pack(&one).unwrap().archive, &out).unwrap();
    assert_eq!(
        pack_as_is(&out).unwrap().archive,
        pack_as_is(&one).unwrap().archive
    );
}

#[test]
fn what_is_secret_or_made_anew_is_left_out() {
    let place = tempdir().unwrap();
    let write = |name: &str| {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    };
    for name in [
        "goondan.yaml",
        "a.txt",
        ".env",
        ".git/config",
        ".goondan/installed/x/y",
        "node_modules/x/y",
        "target/x",
        "ignored/x",
        "dist/made.js",
    ] {
        write(name);
    }
    fs::write(place.path().join(".gitignore"), "ignored/\ndist/\n").unwrap();
    fs::write(place.path().join(".goondanignore"), "a.txt\n!dist/\n").unwrap();
    let packed = pack(place.path()).unwrap();
    let names: Vec<&str> = packed.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["dist/made.js", "goondan.yaml"]);
    write("server.key");
    assert!(pack(place.path()).is_err_and(|error| error.message.contains("server.key")));
}

#[test]
#[cfg(unix)]
fn a_link_is_not_packed() {
    let place = tempdir().unwrap();
    fs::write(place.path().join("goondan.yaml"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place.path().join("notes")).unwrap();
    assert!(pack(place.path()).is_err_and(|error| error.message.contains("notes")));
}

proptest! {
    /// Any name is refused, or stays below the directory.
    #[test]
    fn no_name_leads_out(name in proptest::collection::vec(prop_oneof![Just(b'.'), Just(b'/'), Just(b'\\'), any::<u8>()], 0..90)) {
        let place = tempdir().unwrap();
        let into = place.path().join("into");
        fs::create_dir(&into).unwrap();
        let name: Vec<u8> = name.into_iter().filter(|byte| *byte != 0).collect();
        let _ = unpack(&archive(&[(EntryType::Regular, &[b"package/".as_slice(), &name].concat(), "")]), &into);
        let _ = unpack(&archive(&[(EntryType::Regular, &name, "")]), &into);
        for path in listed(place.path()) {
            prop_assert!(Path::new(&path).starts_with(&into));
        }
        if let Ok(parts) = entry_names::parts(&name) {
            prop_assert!(parts.iter().all(|part| *part != ".." && !part.contains(['/', '\\', ':'])));
        }
    }

    /// Any bytes result in an error or in files below the directory, but never in a panic.
    #[test]
    fn no_bytes_do_harm(mut bytes in Just(archive(&[])), at in 0usize..200, with in any::<u8>()) {
        let at = at % bytes.len();
        bytes[at] ^= with;
        let _ = is_refused(&bytes);
    }
}
