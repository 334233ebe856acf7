use std::collections::BTreeSet;
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

/// Appends an entry without validating its name, as in a malicious archive.
fn append_raw_entry(
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

/// Kind, name and link target of an archive entry.
type RawEntry<'w> = (EntryType, &'w [u8], &'w str);

fn archive(entries: &[RawEntry<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    append_raw_entry(
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
        append_raw_entry(&mut builder, *kind, name, link, content);
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// Lists all files below a directory, without following links.
fn list_files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            found.extend(list_files(&entry.path()));
        }
    }
    found.sort();
    found
}

/// Returns true if the archive is rejected. Asserts that the error has the code of archives, that no
/// file is outside the target directory, and that an accepted archive has only valid names.
fn is_refused(archive: &[u8]) -> bool {
    let directory = tempdir().unwrap();
    let into = directory.path().join("into");
    fs::create_dir(&into).unwrap();
    let outcome = unpack(archive, &into);
    let outside: Vec<_> = list_files(directory.path())
        .into_iter()
        .filter(|path| !Path::new(path).starts_with(&into))
        .collect();
    assert!(outside.is_empty(), "{outside:?}");
    match outcome {
        Err(error) => assert_eq!(error.code, Code::PACKAGE_ARCHIVE, "{error}"),
        Ok(()) => {
            let paths = entry_paths(archive);
            let tops: BTreeSet<_> = paths.iter().filter_map(|parts| parts.first()).collect();
            assert_eq!(tops.len(), 1, "all paths have one top directory: {paths:?}");
            return false;
        }
    }
    true
}

/// Returns the parts of each path in an archive. Asserts that every path is valid.
fn entry_paths(archive: &[u8]) -> Vec<Vec<String>> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let mut paths = Vec::new();
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        let path = entry.path_bytes().into_owned();
        let parts = entry_names::parts(&path).unwrap();
        paths.push(parts.into_iter().map(str::to_owned).collect());
    }
    paths
}

#[test]
fn malicious_archive_entries_are_rejected() {
    use EntryType as E;
    let long = format!("package/{}", "x".repeat(90));
    let attacks: &[(&str, &[RawEntry<'_>])] = &[
        (
            "leaves the directory",
            &[(E::Regular, b"package/../../evil", "")],
        ),
        ("leaves the archive root", &[(E::Regular, b"../evil", "")]),
        (
            "leaves the directory after a dot path",
            &[(E::Regular, b"package/a/./../../../evil", "")],
        ),
        ("is absolute", &[(E::Regular, b"/tmp/gdn-evil", "")]),
        ("has a drive letter", &[(E::Regular, b"package/C:evil", "")]),
        (
            "names an alternate data stream",
            &[(E::Regular, b"package/goondan.yaml:evil", "")],
        ),
        ("has a backslash", &[(E::Regular, b"package\\..\\evil", "")]),
        (
            "has a link to another directory",
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
            "has a directory in two cases",
            &[
                (E::Regular, b"package/a/x", ""),
                (E::Regular, b"package/A/y", ""),
            ],
        ),
        (
            "has a file in place of a directory",
            &[
                (E::Regular, b"package/a/x", ""),
                (E::Regular, b"package/a", ""),
            ],
        ),
        (
            "has a directory in place of a file",
            &[(E::Regular, b"package/goondan.yaml/x", "")],
        ),
        (
            "names a Windows device",
            &[(E::Regular, b"package/CON", "")],
        ),
        (
            "names a Windows device with an extension",
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
        ("is not UTF-8", &[(E::Regular, b"package/\xff\xfe", "")]),
        (
            "has an empty path segment",
            &[(E::Regular, b"package//x", "")],
        ),
        (
            "has a second top-level directory",
            &[(E::Regular, b"other/x", "")],
        ),
        (
            "contains installed packages",
            &[(E::Regular, b"package/.goondan/installed/x", "")],
        ),
        ("has no top-level directory", &[(E::Regular, b"x", "")]),
    ];
    assert!(!is_refused(&archive(&[
        (E::Regular, long.as_bytes(), ""),
        (E::Directory, b"package/d/", "")
    ])));
    for (name, entries) in attacks {
        assert!(is_refused(&archive(entries)), "{name}");
    }
}

#[test]
fn oversized_and_truncated_archives_are_rejected() {
    // 64 MiB of zeros compress to 64 KiB.
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    let mut builder = Builder::new(&mut bomb);
    let mut header = Header::new_gnu();
    header.set_size(64 * 1024 * 1024);
    header.set_mode(0o644);
    builder
        .append_data(
            &mut header,
            "package/zeros",
            std::io::repeat(0).take_64_mib(),
        )
        .unwrap();
    builder.finish().unwrap();
    drop(builder);
    assert!(is_refused(&bomb.finish().unwrap()));
    // Too many empty files.
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for number in 0..10_001 {
        append_raw_entry(
            &mut builder,
            EntryType::Regular,
            format!("package/{number}").as_bytes(),
            "",
            b"",
        );
    }
    assert!(is_refused(&builder.into_inner().unwrap().finish().unwrap()));
    // Too deeply nested directories.
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
    fn take_64_mib(self) -> std::io::Take<std::io::Repeat>;
}

impl Zeros for std::io::Repeat {
    fn take_64_mib(self) -> std::io::Take<std::io::Repeat> {
        std::io::Read::take(self, 64 * 1024 * 1024)
    }
}

#[test]
#[cfg(unix)]
fn unpacking_keeps_only_the_executable_bit_of_a_file_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempdir().unwrap();
    unpack(&archive(&[]), directory.path()).unwrap();
    let mode = fs::metadata(directory.path().join("goondan.yaml"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7022, 0);
    assert_eq!(mode & 0o100, 0o100);
}

#[test]
fn packing_equal_files_gives_equal_bytes() {
    let directory = tempdir().unwrap();
    let (one, two) = (directory.path().join("one"), directory.path().join("two"));
    let names = ["goondan.yaml", "tools/a.ts", "tools/b.ts"];
    for (package, names) in [
        (&one, names.to_vec()),
        (&two, names.iter().rev().copied().collect()),
    ] {
        for name in names {
            fs::create_dir_all(package.join("tools")).unwrap();
            fs::write(package.join(name), name).unwrap();
        }
    }
    assert_eq!(pack(&one).unwrap().archive, pack(&two).unwrap().archive);
    let out = directory.path().join("out");
    fs::create_dir(&out).unwrap();
    unpack(&pack(&one).unwrap().archive, &out).unwrap();
    assert_eq!(
        pack_as_is(&out).unwrap().archive,
        pack_as_is(&one).unwrap().archive
    );
}

#[test]
fn packing_omits_ignored_files_and_rejects_secret_files() {
    let directory = tempdir().unwrap();
    let write = |name: &str| {
        let path = directory.path().join(name);
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
    fs::write(directory.path().join(".gitignore"), "ignored/\ndist/\n").unwrap();
    fs::write(directory.path().join(".goondanignore"), "a.txt\n!dist/\n").unwrap();
    let packed = pack(directory.path()).unwrap();
    let names: Vec<&str> = packed.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["dist/made.js", "goondan.yaml"]);
    write("server.key");
    assert!(pack(directory.path()).is_err_and(|error| error.message.contains("server.key")));
}

#[test]
#[cfg(unix)]
fn packing_rejects_symbolic_links() {
    let directory = tempdir().unwrap();
    fs::write(directory.path().join("goondan.yaml"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", directory.path().join("notes")).unwrap();
    assert!(pack(directory.path()).is_err_and(|error| error.message.contains("notes")));
}

proptest! {
    /// Any name is rejected or stays below the target directory.
    #[test]
    fn entry_names_cannot_leave_the_target_directory(name in proptest::collection::vec(prop_oneof![Just(b'.'), Just(b'/'), Just(b'\\'), any::<u8>()], 0..90)) {
        let directory = tempdir().unwrap();
        let into = directory.path().join("into");
        fs::create_dir(&into).unwrap();
        let name: Vec<u8> = name.into_iter().filter(|byte| *byte != 0).collect();
        let below = [b"package/".as_slice(), &name].concat();
        for archive in [archive(&[(EntryType::Regular, &below, "")]), archive(&[(EntryType::Regular, &name, "")])] {
            is_refused(&archive);
            // The second archive finds the files of the first.
            let _ = unpack(&archive, &into);
        }
        for path in list_files(directory.path()) {
            prop_assert!(Path::new(&path).starts_with(&into));
        }
        if let Ok(parts) = entry_names::parts(&name) {
            prop_assert!(parts.iter().all(|part| *part != ".." && !part.contains(['/', '\\', ':'])));
        }
    }

    /// Any bytes result in an error or in files below the target directory, but never in a panic.
    #[test]
    fn a_corrupted_archive_never_writes_outside_the_target(mut bytes in Just(archive(&[])), at in 0usize..200, with in any::<u8>()) {
        let at = at % bytes.len();
        bytes[at] ^= with;
        is_refused(&bytes);
    }
}
