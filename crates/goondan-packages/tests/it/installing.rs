//! Tests of selected versions and installed files.

use goondan_packages::{InstallOptions, UpdateSelection};
use goondan_spec::Code;

use crate::projects::{Machine, archives, exists};

const FROZEN: InstallOptions = InstallOptions {
    frozen: true,
    offline: false,
    update: UpdateSelection::Nothing,
};
const OFFLINE: InstallOptions = InstallOptions {
    frozen: false,
    offline: true,
    update: UpdateSelection::Nothing,
};

fn local(name: &str, range: &str, folder: &str) -> String {
    format!("{{name: \"{name}\", version: \"{range}\", source: \"file:../{folder}\"}}")
}

/// Creates a project `app` that needs `one`, which needs `two`.
fn chain() -> Machine {
    let machine = Machine::new();
    machine.package("two", "two", "2.0.0", "");
    machine.package("one", "@a/one", "1.0.0", &local("two", "^2.0.0", "two"));
    machine.package("app", "app", "0.1.0", &local("@a/one", "^1.0.0", "one"));
    machine
}

#[tokio::test]
async fn packages_of_packages_are_installed_and_removed() {
    let machine = chain();
    assert_eq!(machine.problems("app"), ["E_PACKAGE_NOT_INSTALLED"]);
    let outcome = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert_eq!(outcome.changed, ["@a/one", "two"]);
    assert_eq!(machine.problems("app"), Vec::<&str>::new());
    assert!(
        machine
            .install("app", &InstallOptions::default())
            .await
            .unwrap()
            .changed
            .is_empty()
    );
    machine.package("app", "app", "0.1.0", "");
    let outcome = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert_eq!(outcome.removed, ["@a/one", "two"]);
    assert!(!exists(&machine.path("app/.goondan/installed/@a")));
}

#[tokio::test]
async fn the_cache_is_enough_and_is_not_believed() {
    let machine = chain();
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    for folder in ["one", "two"] {
        std::fs::remove_dir_all(machine.path(folder)).unwrap();
    }
    std::fs::remove_dir_all(machine.path("app/.goondan")).unwrap();
    machine.install("app", &FROZEN).await.unwrap();
    assert_eq!(machine.problems("app"), Vec::<&str>::new());
    std::fs::remove_dir_all(machine.path("app/.goondan")).unwrap();
    // Exchange two archives.
    let all = archives(&machine);
    let (first, second) = (
        std::fs::read(&all[0]).unwrap(),
        std::fs::read(&all[1]).unwrap(),
    );
    std::fs::write(&all[0], second).unwrap();
    std::fs::write(&all[1], first).unwrap();
    let refused = machine.install("app", &OFFLINE).await.unwrap_err();
    assert_eq!(refused.code, Code::PACKAGE_INTEGRITY);
    assert_eq!(machine.problems("app"), ["E_PACKAGE_NOT_INSTALLED"]);
}

#[tokio::test]
async fn what_is_frozen_does_not_change() {
    let machine = chain();
    assert_eq!(
        machine.install("app", &FROZEN).await.unwrap_err().code,
        Code::PACKAGE_LOCK_OUTDATED
    );
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    let lock = machine.read("app/goondan.lock.yaml");
    machine.write("one/more.txt", "more");
    machine.install("app", &FROZEN).await.unwrap();
    assert!(!exists(
        &machine.path("app/.goondan/installed/@a/one/more.txt")
    ));
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert!(exists(
        &machine.path("app/.goondan/installed/@a/one/more.txt")
    ));
    assert_ne!(machine.read("app/goondan.lock.yaml"), lock);
    machine.package("app", "app", "0.1.0", &local("@a/one", "^2.0.0", "one"));
    assert_eq!(machine.problems("app"), ["E_PACKAGE_LOCK_OUTDATED"]);
    assert_eq!(
        machine.install("app", &FROZEN).await.unwrap_err().code,
        Code::PACKAGE_LOCK_OUTDATED
    );
}

#[tokio::test]
async fn a_file_that_was_changed_added_or_removed_is_found() {
    let machine = chain();
    machine.write("one/a.txt", "a");
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    let inside = |name: &str| machine.path(&format!("app/.goondan/installed/@a/one/{name}"));
    for change in [
        &(|| std::fs::write(inside("a.txt"), "b").unwrap()) as &dyn Fn(),
        &|| std::fs::write(inside("b.txt"), "").unwrap(),
        &|| std::fs::remove_file(inside("a.txt")).unwrap(),
        &|| std::fs::rename(inside("a.txt"), inside("c.txt")).unwrap(),
    ] {
        change();
        assert_eq!(machine.problems("app"), ["E_PACKAGE_INTEGRITY"]);
        assert_eq!(
            machine.install("app", &OFFLINE).await.unwrap().changed,
            ["@a/one"]
        );
        assert_eq!(machine.problems("app"), Vec::<&str>::new());
    }
}

#[tokio::test]
async fn versions_that_do_not_go_together_are_told() {
    let machine = chain();
    machine.package("three", "three", "1.0.0", &local("two", "^3.0.0", "two"));
    let both = format!(
        "{}, {}",
        local("@a/one", "*", "one"),
        local("three", "*", "three")
    );
    machine.package("app", "app", "0.1.0", &both);
    let refused = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::PACKAGE_VERSION_CONFLICT);
    for who in ["@a/one@1.0.0 needs ^2.0.0", "three@1.0.0 needs ^3.0.0"] {
        assert!(refused.message.contains(who), "{refused}");
    }
}

#[tokio::test]
async fn a_circle_is_told() {
    let machine = chain();
    machine.package("two", "two", "2.0.0", &local("app", "*", "app"));
    assert_eq!(
        machine
            .install("app", &InstallOptions::default())
            .await
            .unwrap_err()
            .code,
        Code::CYCLE
    );
    machine.package("two", "two", "2.0.0", &local("@a/one", "*", "one"));
    // Each package is installed once, so the installation ends. The cycle is reported when the
    // project is loaded.
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert_eq!(machine.problems("app"), ["E_CONFIG_CYCLE"]);
}

#[tokio::test]
async fn installations_at_the_same_time_do_not_disturb_each_other() {
    let machine = chain();
    machine.package("other", "other", "0.1.0", &local("@a/one", "^1.0.0", "one"));
    let (default, folders) = (
        InstallOptions::default(),
        ["app", "other", "app", "other", "app", "other"],
    );
    let [a, b, c, d, e, f] = folders.map(|folder| machine.install(folder, &default));
    let all = tokio::join!(a, b, c, d, e, f);
    for outcome in [all.0, all.1, all.2, all.3, all.4, all.5] {
        assert_eq!(outcome.unwrap().packages.len(), 2);
    }
    assert!(machine.problems("app").is_empty() && machine.problems("other").is_empty());
    let work = std::fs::read_dir(machine.path("state/packages/work")).unwrap();
    assert_eq!(work.count(), 0, "nothing is left behind");
}
