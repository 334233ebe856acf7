use std::fs;

use proptest::prelude::*;

use super::*;

/// Files that the scripts of these tests can name.
const TEXTS: [&str; 5] = ["a.txt", "b.txt", "sub/c.txt", "my text.txt", "rules.txt"];

/// Returns the files that a script sources, relative to its directory; `None` if a file is unknown.
fn sourced(name: &str, text: &str) -> Option<Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().to_owned();
    fs::create_dir_all(folder.join("sub")).unwrap();
    for file in TEXTS {
        fs::write(folder.join(file), "true\n").unwrap();
    }
    fs::write(folder.join("sub/other.sh"), ". ./a.txt\n").unwrap();
    let script = folder.join(name);
    fs::write(&script, text).unwrap();
    let found = sourced_files(
        &[],
        &BTreeSet::from([script]),
        std::slice::from_ref(&folder),
        &folder,
    );
    let relative = found.files.iter().map(|file| {
        let file = file.strip_prefix(&folder).unwrap_or(file);
        file.display().to_string()
    });
    (!found.are_unknown).then(|| relative.collect())
}

#[test]
fn the_files_that_a_script_sources_are_found() {
    let cases = [
        (". ./a.txt", &["a.txt"][..]),
        ("source b.txt # with words", &["b.txt"]),
        (
            "true && . ./a.txt; builtin source b.txt",
            &["a.txt", "b.txt"],
        ),
        ("if [ -f a.txt ]; then\n  . ./a.txt\nfi", &["a.txt"]),
        ("f() { . ./a.txt; }\nf", &["a.txt"]),
        (". \\\n  './my text.txt'", &["my text.txt"]),
        (". \"./my text.txt\" > out 2>&1", &["my text.txt"]),
        (". \"$(dirname \"$0\")/a.txt\"", &["a.txt"]),
        (". \"${0%/*}/sub/c.txt\"", &["sub/c.txt"]),
        (
            "HERE=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\nL=$HERE/sub\nsource \"$L/c.txt\"",
            &["sub/c.txt"],
        ),
        ("cd sub && . ./c.txt", &["sub", "sub/c.txt"]),
        ("sh a.txt", &["a.txt"]),
        ("exec bash -x a.txt 1", &["a.txt"]),
        ("sh < a.txt", &["a.txt"]),
        ("sh -c '. ./a.txt'", &["a.txt"]),
        ("X=$(sh b.txt)", &["b.txt"]),
        ("echo \"`sh b.txt`\"", &["b.txt"]),
        ("sub/other.sh", &["a.txt", "sub/other.sh"]),
        ("make -f rules.txt", &["rules.txt"]),
        ("make -s --file=rules.txt all", &["rules.txt"]),
        ("X=1 Y=2 sh a.txt", &["a.txt"]),
        ("env -u Z X=1 sh a.txt", &["a.txt"]),
        ("nohup sh a.txt &", &["a.txt"]),
        ("timeout -k 1 5 nice -n 5 sh a.txt", &["a.txt"]),
        ("sudo -u me sub/other.sh", &["a.txt", "sub/other.sh"]),
        ("watch 'sh a.txt'", &["a.txt"]),
        ("trap '. ./a.txt' EXIT", &["a.txt"]),
        ("python3 -u a.txt \"$@\"", &["a.txt"]),
        ("env perl -w a.txt", &["a.txt"]),
        ("awk -f a.txt b.txt; sed -fb.txt a.txt", &["a.txt", "b.txt"]),
        ("awk \"{print \\$$1}\" b.txt | sed \"s/$X/y/\"", &["b.txt"]),
        ("find . -name '*.o' -exec rm {} +", &[]),
        ("find . -name *.o | xargs -n 1 -I {} cp {} sub", &[]),
        ("ls | xargs -P 4 sub/other.sh", &["a.txt", "sub/other.sh"]),
        ("$CC -o x a.txt", &["a.txt"]),
        ("case $1 in sh) echo a.txt;; esac", &["a.txt"]),
        ("cat a.txt; grep source b.txt >&2", &["a.txt", "b.txt"]),
        ("cat a.txt > c.txt; sh b.txt", &["a.txt", "b.txt"]),
        ("BASH_ENV=./a.txt bash -c :", &["a.txt"]),
        ("git -c alias.x='!sh a.txt' x", &["a.txt"]),
        ("split -b9 --filter='sh a.txt' x", &["a.txt"]),
        ("tar cf x --checkpoint-action='exec=sh a.txt' y", &["a.txt"]),
        (
            "python3 - <<E\nimport os; os.system(\"sh a.txt\")\nE",
            &["a.txt"],
        ),
        (
            "sed 's/x/sh a.txt/e' x; awk 'BEGIN{system(\"sh b.txt\")}'",
            &["a.txt", "b.txt"],
        ),
        (
            "gdb -ex 'shell sh a.txt'; vim -c '!sh b.txt'",
            &["a.txt", "b.txt"],
        ),
        ("perl -e 'do \"./a.txt\"'", &["a.txt"]),
        ("IFS=:; x=sh:a.txt; $x", &["a.txt"]),
        ("cat <<E\nit's a.txt\nE\n. ./b.txt", &["a.txt", "b.txt"]),
        ("cd sub && make", &["sub"]),
        ("make -C sub; perl -Isub x.pl", &["sub"]),
        ("PYTHONPATH=sub python3 x.py", &["sub"]),
        ("PATH+=:sub; tool", &["sub"]),
        (
            "while read -r l; do\n  case \"$l\" in\n    a*) echo \"$l\";;\n  esac\ndone",
            &[],
        ),
        (
            "die() { echo \"$1\" >&2; exit 1; }\ndie \"$(git status)\"",
            &[],
        ),
        ("make -j \"$(nproc)\" && cp x y", &[]),
        ("docker build -t app:$(git rev-parse HEAD) .", &[]),
        ("for f in *.txt; do echo \"$f: $((1 + 2))\"; done", &[]),
        (
            "usage() { echo \"usage: $0 [-h]\"; }\ncase $1 in -h) usage;; esac",
            &[],
        ),
        (
            "DIR=$(cd \"$(dirname \"$0\")\" && pwd)\ncd \"$DIR\"\nnpm ci && npm test",
            &[],
        ),
        (
            "set -euo pipefail\nexport PATH=$PATH:/usr/local/bin\ncargo test \"$@\" | tee out.log",
            &[],
        ),
        ("cp a.txt later.sh", &["a.txt"]),
        ("timeout 5 sh a.txt", &["a.txt"]),
        ("env X=1 sh ./a.txt", &["a.txt"]),
        ("nohup setsid -w flock lock sh a.txt &", &["a.txt"]),
        ("sudo -u x bash a.txt", &["a.txt"]),
        ("./a.txt", &["a.txt"]),
        ("X=1 sh a.txt", &["a.txt"]),
        ("trap '. ./a.txt' EXIT", &["a.txt"]),
        ("eval \"sh a.txt\"", &["a.txt"]),
        ("script -c 'sh a.txt' out", &["a.txt"]),
        ("\"$SHELL\" a.txt", &["a.txt"]),
        ("${SHELL:-sh} a.txt", &["a.txt"]),
        ("coproc sh a.txt", &["a.txt"]),
        ("cat <(sh a.txt)", &["a.txt"]),
        ("python3 a.txt", &["a.txt"]),
        ("run() { \"$@\"; }; run sh a.txt", &["a.txt"]),
        ("command -v bash && apt-get install -y bash", &[]),
        ("rm -f a.txt; mkdir -p sub; touch b.txt", &[]),
        ("exec \"$@\"", &[]),
        ("eval \"set -- $1\" x", &[]),
        (
            "if [ -n \"$JAVA_HOME\" ]; then C=$JAVA_HOME/bin/java; else C=java; fi; exec \"$C\"",
            &[],
        ),
        ("$CC -c main.o", &[]),
        ("# . ./a.txt", &["a.txt"]),
        ("for f in *.txt; do wc $f; done", &[]),
        ("D=$1; echo $D > b.txt", &[]),
    ];
    let wrong: Vec<_> = cases
        .into_iter()
        .map(|(text, expected)| (text, sourced("run.sh", text), expected))
        .filter(|(_, found, expected)| {
            found
                .as_ref()
                .is_none_or(|found| found.iter().ne(expected.iter()))
        })
        .collect();
    assert_eq!(wrong, []);
}

#[test]
fn a_sourced_file_with_a_computed_name_is_unknown() {
    let scripts = [
        ". \"$LIB/a.txt\"",
        "source $1",
        ". $(cat b.txt)",
        "D=a.txt\nD=b.txt\n. ./$D",
        "read D < b.txt; . ./$D",
        "for D in a b; do . ./$D.txt; done",
        ". ./*.txt",
        ". ./{a,b}.txt",
        "cat a.txt | sh",
        "cat a.txt | setsid -w sh",
        "echo ./a.txt | xargs sh",
        "find . -name 'a*.txt' -exec sh {} +",
        "C=$(cat a.txt); $C",
        "read line < a.txt; $line",
        "sh -c \"$(cat a.txt)\"",
        "eval \"$(cat a.txt)\"",
        "eval \"set -- $(cat a.txt)\" x",
        "eval echo \"`cat a.txt`\"",
        "sh -c \"echo $(cat a.txt)\"",
        "read D < a.txt; trap \"echo $D\" EXIT",
        "watch \"echo $(cat a.txt)\"",
        "for f in *.txt; do ./$f; done",
        "./*.txt",
        "\"$LIB/run\"",
        "sh -c '. $0' b.txt",
        "make -f \"$X\"",
        "find sub -exec sh {} +",
        "find sub -type f -exec {} \\;",
        "find sub -exec true {} \\; -exec {} \\;",
        "find sub -ok echo {} \\; -execdir sh {} +",
        "find sub -ok timeout 5 bash {} \\;",
        "nice find sub -execdir sh -c '. $0' {} +",
        "ls sub | xargs -n 1 sh",
        "xargs -a b.txt -I F env python3 F",
        "ls sub | xargs -I {} {}",
        "parallel sh :::: b.txt",
        "fd . sub -x sh",
        "run-parts --regex=x sub",
        // Data as a command or as the name of a command.
        "set -- $(cat a.txt); \"$@\"",
        "f() { \"$@\"; }\nf $(cat a.txt)",
        "function f { \"$@\"; }\nf $(cat a.txt)",
        "env $(cat a.txt)",
        "nohup $(cat a.txt)",
        "timeout 5 $(cat a.txt)",
        "env -S \"$(cat a.txt)\"",
        "X=\"$(cat a.txt)\" sh -c \"\\$X\"",
        "export X=$(cat a.txt); sh -c '$X'",
        "read -ra a < a.txt; \"${a[@]}\"",
        "cat a.txt | while read -r l; do $l; done",
        "while IFS= read -r l; do $l; done < a.txt",
        "exec < a.txt\nwhile read -r l; do $l; done",
        "mapfile l < a.txt; $l",
        "printf -v l %s \"$(cat a.txt)\"; $l",
        "declare -n r=x; x=s; . ./$r.txt",
        "r=s.; r+=txt; . ./$r",
        "mytool $(cat a.txt)",
        "ls sub | sed 's/^/sh /e'",
        "find sub -exec cp {} b.txt \\;; sh b.txt",
        "X=$(cat a.txt); mytool \"$X\"",
        "${X:-$(cat a.txt)}",
        "x=a; . ./${x%b}.txt",
        "make $(cat a.txt)",
        // Input of programs.
        ". /dev/stdin < a.txt",
        ". <(cat a.txt)",
        "cat a.txt | sh -s x",
        "ls | python3",
        "cat *.txt | tclsh",
        "cat *.txt | while true; do tclsh; done",
        "sh <<E\n$(cat a.txt)\nE",
        "tclsh <<E\n$(cat a.txt)\nE",
        "X=$(date -f a.txt); mytool $X",
        // Other meanings of known names, and text that shells read in other ways.
        "alias cat=.; cat ./a.txt",
        "ls() { sh \"$@\"; }; ls $(cat a.txt)",
        "cat <<E\nit's\nE\nX=$(cat a.txt); $X; echo 'x'",
        "IFS=$' \\'\\n'\n. ./a.txt\necho $'\\''",
        "echo 'open",
        "echo $(cat a.txt",
        // Copies of unknown data, and directories of code.
        "cp -r sub copy; sh copy/c.txt",
        "tar xf a.tar; sh sub/c.txt",
        "cat *.txt > b.txt; sh b.txt",
        "HOME=$PWD; . ~/a.txt",
        "PATH=$(cat a.txt):$PATH; tool",
        "PATH+=:$(cat a.txt); tool",
        "PYTHONPATH=.. python3 a.txt",
        "X=1 sh \"$1\"",
        "python3 \"$1\"",
        "awk -f \"$1\"",
        "sub/$1",
    ];
    let wrong: Vec<_> = scripts
        .into_iter()
        .filter(|text| sourced("run.sh", text).is_some())
        .collect();
    assert_eq!(wrong, Vec::<&str>::new());
}

#[test]
fn the_files_of_makefiles_and_manifests_are_found() {
    let mut wrong = Vec::new();
    for (name, text, expected) in [
        (
            "Makefile",
            "include a.txt b.txt # c\n",
            Some(&["a.txt", "b.txt"][..]),
        ),
        (
            "rules.mk",
            "-include a.txt\nsinclude sub/c.txt\n",
            Some(&["a.txt", "sub/c.txt"]),
        ),
        (
            "Makefile",
            "all:\n\t@-. ./a.txt && $(MAKE) -f rules.txt\n",
            Some(&["a.txt", "rules.txt"]),
        ),
        (
            "Makefile",
            "all:\n\tfor f in x; do sh b.txt $$f; done\n",
            Some(&["b.txt"]),
        ),
        (
            "Makefile",
            "all: a.txt\n\tcc -o $@ $<\n\tcat include\n",
            Some(&["a.txt"]),
        ),
        ("Makefile", "include $(DIR)/a.txt\n", None),
        ("Makefile", "include *.txt\n", None),
        ("Makefile", "all:\n\t. $(FILE)\n", None),
        ("Makefile", "all:\n\tsh $<\n", None),
        ("Makefile", "all:; @sh a.txt\n", Some(&["a.txt"])),
        ("Makefile", "all:\n\t@x\nSHELL=./a.txt\n", None),
        ("Makefile", ".SHELLFLAGS = a.txt\nall:\n\ttrue\n", None),
        (
            "Makefile",
            "export BASH_ENV=./a.txt\nall:\n\ttrue\n",
            Some(&["a.txt"]),
        ),
        (
            "Makefile",
            "export X=$(shell cat a.txt)\nall:\n\t$$X\n",
            None,
        ),
        ("Makefile", "$(eval include a.txt)\nall:\n\ttrue\n", None),
        ("Makefile", "all:\n\tset -- $$(cat a.txt); \"$$@\"\n", None),
        ("justfile", "all:\n  sh a.txt\n", Some(&["a.txt"])),
        (
            "package.json",
            r#"{"name": "x", "scripts": {"build": "sh a.txt && node x.js", "test": ". ./b.txt"}}"#,
            Some(&["a.txt", "b.txt"]),
        ),
        (
            "package.json",
            r#"{"scripts": {"build": "sh $FILE"}}"#,
            None,
        ),
        ("notes.md", "include a.txt\n. ./a.txt\n", Some(&[])),
    ] {
        let expected: Option<Vec<String>> =
            expected.map(|files| files.iter().map(|file| (*file).to_owned()).collect());
        if sourced(name, text) != expected {
            wrong.push((name, text, sourced(name, text)));
        }
    }
    assert_eq!(wrong, []);
}

#[test]
fn files_that_source_each_other_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().to_owned();
    for (name, text) in [
        ("run.txt", ". ./a.txt"),
        ("a.txt", "sh b.txt"),
        ("b.txt", ". ./run.txt; make -f c.txt"),
        ("c.txt", "include d.txt"),
        ("d.txt", "x:\n\ttrue"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    let line = ["sh ./run.txt".to_owned()];
    let found = sourced_files(
        &line,
        &BTreeSet::new(),
        std::slice::from_ref(&folder),
        &folder,
    );
    assert!(!found.are_unknown);
    let names = ["a.txt", "b.txt", "c.txt", "d.txt", "run.txt"];
    let names: BTreeSet<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    let found: BTreeSet<PathBuf> = found
        .files
        .iter()
        .map(|path| path.canonicalize().unwrap())
        .collect();
    let names: BTreeSet<PathBuf> = names
        .iter()
        .map(|path| path.canonicalize().unwrap())
        .collect();
    assert_eq!(found, names);
}

#[test]
fn a_file_that_does_not_exist_yet_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().to_owned();
    let script = folder.join("run.sh");
    fs::write(&script, "[ -f later.txt ] && . ./later.txt").unwrap();
    let found = sourced_files(
        &[],
        &BTreeSet::from([script]),
        std::slice::from_ref(&folder),
        &folder,
    );
    assert_eq!(found.missing, BTreeSet::from([folder.join("later.txt")]));
    assert!(found.files.is_empty() && !found.are_unknown);
}

proptest! {
    /// No text causes a panic or unlimited recursion.
    #[test]
    fn any_text_is_read_without_panic(text in "[.$(){}`'\"\\\\ \n;|<>a=*#]{0,200}", count in 0usize..300) {
        sourced("run.sh", &text);
        sourced("run.sh", &"$(".repeat(count));
        sourced("run.sh", &"`\"$(".repeat(count));
    }
}
