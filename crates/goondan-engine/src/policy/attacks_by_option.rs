//! Attacks on policies using options of allowed programs, one per row.

use goondan_spec::kinds::PermissionAction;

use super::tests::shell_action;

/// Options with which programs run other programs, in any spelling, and words that may become such
/// an option.
const BY_OPTION: &[&str] = &[
    "git -c core.pager=x log",
    "git -ccore.pager=x log",
    "git --config-e=core.pager=X log",
    "git grep --open=sh x",
    "git grep --op=sh x",
    "git grep -nOsh x",
    "git grep -O* x",
    "git grep -n* x",
    "git grep --open-files* x",
    "git \"$(echo -c)\" core.pager=x log",
    "git \"-$(echo c)\" core.pager=x log",
    "git log \"$(echo --ext-diff)\"",
    "git log \"$(echo \"$(git tag)\")\"",
    "git rebase -m \"$(echo --exec=sh)\"",
    "git log -m \"$(echo --ext-diff)\"",
    "git commit -m $(echo x)",
    "git rebase -ix sh",
    "git archive --remote=. --exe=sh HEAD",
    "git clone --upload=sh . x",
    "git clone -u sh . x",
    "git clone -ush . x",
    "git clone -qu sh . x",
    "git -C . clone -u sh . x",
    "git \"bi$(echo sect)\" run x",
    "git \"$(echo bisect)\" run x",
    "git bisec* run x",
    "git -C x bisec? run x",
    "git submodule \"fore$(echo ach)\" x",
    "tar --to-comm=sh -xf a.tar",
    "tar --to-command=sh -xf a.tar",
    "tar --to-co sh -xf a.tar",
    "tar --use=sh -xf a.tar",
    "tar --rmt=sh -xf a:b",
    "tar --new-volume=sh -cMf a.tar .",
    "tar --checkpoint-act=exec=sh -cf a.tar .",
    "tar -cIsh -f a.tar .",
    "tar -cI sh -f a.tar .",
    "tar cIf sh a.tar .",
    "tar -cMFsh -f a.tar .",
    "tar -c* a.tar",
    "tar \"$(echo --to-command=sh)\" -xf a.tar",
    "tar -xf a.tar --to\"$(echo -command=sh)\"",
    "tar \"c$(echo I)f\" sh a.tar .",
    "tar -xf a.tar *",
    "find . \"-$(echo exec)\" touch x ';'",
    "find . -e* touch x ';'",
    "find . -ex?c touch x ';'",
    "find . \"$(echo -exec)\" touch x ';'",
    "find . -exec git -c{} log ';'",
    "find -files0-from list -exec git grep {} x ';'",
    "rsync -ave sh a b:",
    "rsync --rsh=sh a b:",
    "rsync -av* a b:",
    "fd -Hx touch",
    "fd --exec-b touch",
    "timeout 5 tar -cIsh -f a.tar .",
    "find . -exec tar --to-comm=sh -xf {} ';'",
];

/// Normal command lines of the same programs.
const ORDINARY: &[&str] = &[
    "git log -n 5 --oneline",
    "git log --graph --format=%H -- '*.rs'",
    "git commit -m \"$(cat msg)\"",
    "git commit -am \"$(cat msg)\"",
    "git commit --amend --message \"$(cat msg)\"",
    "git tag -a v1 -m \"$(cat msg)\"",
    "git log HEAD~\"$(cat count)\"",
    "git log -- \"$(cat names)\"",
    "git add src/*.rs",
    "git diff --stat d*",
    "git push -u origin main",
    "git clone -q . x",
    "tar -xzf a.tgz",
    "tar xzf a.tgz",
    "tar -cf a.tar --exclude=target .",
    "tar --extract --file a.tar --directory Images",
    "find . -name \"*.rs\"",
    "find src -type f -exec git add {} ';'",
    "find . -name '-*' -exec git log -- {} +",
    "rsync -av a b",
    "fd -e rs",
];

#[test]
fn options_that_run_other_programs_are_not_allowed() {
    let programs = [
        "git *", "tar *", "find *", "rsync *", "fd *", "cat *", "echo *",
    ];
    let rules = programs.map(|pattern| (pattern, PermissionAction::Allow));
    let action = |line: &&&str| shell_action(PermissionAction::Deny, &rules, line);
    let allowed: Vec<_> = BY_OPTION
        .iter()
        .filter(|line| action(line) == PermissionAction::Allow)
        .collect();
    assert!(allowed.is_empty(), "{allowed:#?}");
    let refused: Vec<_> = ORDINARY
        .iter()
        .filter(|line| action(line) != PermissionAction::Allow)
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    println!(
        "attacks: shell, by options of allowed programs: {} refused",
        BY_OPTION.len()
    );
}
