//! Files that a command line names: a script, or what a script is given. An approval of the line that holds on is about what was in
//! them, too: whoever asks could write another script there.
//!
//! This looks at the text alone, so it does not find what a program looks for by itself (a `Makefile`), nor what a pattern or a variable
//! stands for. A command of a known form counts for itself: its files are what it works on.

use std::collections::BTreeSet;
use std::path::PathBuf;

use goondan_core::shell::{self, What};
use goondan_spec::pattern::Atom;

/// Programs that neither read nor copy what is in the files that they name.
const NAMES_ALONE: [&str; 4] = ["mkdir", "rm", "rmdir", "touch"];

/// So many words of a line are looked at.
const MOST_WORDS: usize = 500;
/// So many folders of a line are looked into.
const MOST_FOLDERS: usize = 16;

/// The files that the lines name where they run in one of `folders`. `None` where there are too many words to tell.
pub(super) fn files(lines: &[String], folders: &[PathBuf]) -> Option<BTreeSet<PathBuf>> {
    let words: BTreeSet<String> = lines.iter().flat_map(|line| words(line)).collect();
    if words.len() > MOST_WORDS {
        return None;
    }
    // A line may go into a folder before it names a file there.
    let below = |folder: &PathBuf| words.iter().map(|word| folder.join(word)).collect::<Vec<_>>();
    let inside = folders.iter().flat_map(below).filter(|path| path.is_dir());
    let all: Vec<PathBuf> = folders.iter().cloned().chain(inside).collect();
    if all.len() > MOST_FOLDERS {
        return None;
    }
    Some(all.iter().flat_map(below).filter(|path| path.is_file()).collect())
}

/// The words of a line that may name a file which decides what runs, whatever quotes stand around them.
fn words(line: &str) -> Vec<String> {
    let cut = |text: &str| {
        let ends = |c: char| c.is_whitespace() || ";&|<>()'\"`=,".contains(c);
        text.split(ends).filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let text =
        |atoms: &[Atom]| atoms.iter().map(|atom| if let Atom::Char(c) = atom { *c } else { '*' }).collect::<String>();
    // Nothing stands before the name, such as a variable that has the program load something.
    let is_about_names = |whole: &str| whole.split_whitespace().next().is_some_and(|name| NAMES_ALONE.contains(&name));
    let of_part = |part: &shell::Part| match part.what {
        What::Hidden { .. } => cut(line),
        What::Command if shell::form(part).is_none() && !is_about_names(&text(&part.whole)) => cut(&text(&part.whole)),
        _ => Vec::new(),
    };
    let parts = shell::parts(line);
    // Where another folder is gone into, all files below it are named from there.
    let cds = parts.iter().filter(|part| part.start.first().is_some_and(|name| name == "cd"));
    cds.flat_map(|part| cut(&text(&part.whole))).chain(parts.iter().flat_map(of_part)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_script_is_found_however_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("work");
        fs::create_dir_all(folder.join("sub")).unwrap();
        for file in ["run.sh", "sub/run.py", "notes.txt", "../outside.run.sh"] {
            fs::write(folder.join(file), "x").unwrap();
        }
        let named = |line: &str| -> Vec<String> {
            let files = files(&[line.to_owned()], std::slice::from_ref(&folder)).unwrap();
            files.iter().map(|file| file.strip_prefix(&folder).unwrap_or(file).display().to_string()).collect()
        };
        for line in [
            "sh run.sh",
            "./run.sh",
            "bash -c 'sh run.sh'",
            "env X=1 sh run.sh",
            "cat notes.txt | sh run.sh",
            "sh < run.sh",
            "for i in 1; do . run.sh; done",
            "X=run.sh; sh $X",
            "python3 --file=run.sh",
            "sh ../outside.run.sh",
        ] {
            assert!(named(line).iter().any(|file| file.ends_with("run.sh")), "{line}: {:?}", named(line));
        }
        assert_eq!(named("cd sub && python3 run.py"), ["sub/run.py"]);
        assert_eq!(named("LD_PRELOAD=run.sh touch x"), ["run.sh"]);
        for line in ["cat notes.txt", "git diff run.sh", "ls", "make test", "touch run.sh", "rm -f run.sh"] {
            assert_eq!(named(line), Vec::<String>::new(), "{line}");
        }
        assert_eq!(files(&[(0..600).map(|n| format!(" w{n}")).collect::<String>()], &[folder]), None);
    }
}
