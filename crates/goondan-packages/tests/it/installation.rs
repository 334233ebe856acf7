//! Tests of version selection and installed files.

use goondan_packages::{InstallOptions, UpdateSelection};
use goondan_spec::Code;

use crate::projects::{Machine, cached_archives, exists};

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

/// Creates a project `app` that depends on `one`, which depends on `two`.
fn project_with_dependencies() -> Machine {
    let machine = Machine::new();
    machine.write_package("two", "two", "2.0.0", "");
    machine.write_package("one", "@a/one", "1.0.0", &local("two", "^2.0.0", "two"));
    machine.write_package("app", "app", "0.1.0", &local("@a/one", "^1.0.0", "one"));
    machine
}

#[tokio::test]
async fn transitive_dependencies_are_installed_and_removed() {
    let machine = project_with_dependencies();
    assert_eq!(machine.error_codes("app"), ["E_PACKAGE_NOT_INSTALLED"]);
    let outcome = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert_eq!(outcome.changed, ["@a/one", "two"]);
    assert_eq!(machine.error_codes("app"), Vec::<&str>::new());
    assert!(
        machine
            .install("app", &InstallOptions::default())
            .await
            .unwrap()
            .changed
            .is_empty()
    );
    machine.write_package("app", "app", "0.1.0", "");
    let outcome = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert_eq!(outcome.removed, ["@a/one", "two"]);
    assert!(!exists(&machine.path("app/.goondan/installed/@a")));
}

#[tokio::test]
async fn installation_uses_the_cache_and_verifies_its_archives() {
    let machine = project_with_dependencies();
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    for folder in ["one", "two"] {
        std::fs::remove_dir_all(machine.path(folder)).unwrap();
    }
    std::fs::remove_dir_all(machine.path("app/.goondan")).unwrap();
    machine.install("app", &FROZEN).await.unwrap();
    assert_eq!(machine.error_codes("app"), Vec::<&str>::new());
    std::fs::remove_dir_all(machine.path("app/.goondan")).unwrap();
    // Swap two archives.
    let all = cached_archives(&machine);
    let (first, second) = (
        std::fs::read(&all[0]).unwrap(),
        std::fs::read(&all[1]).unwrap(),
    );
    std::fs::write(&all[0], second).unwrap();
    std::fs::write(&all[1], first).unwrap();
    let error = machine.install("app", &OFFLINE).await.unwrap_err();
    assert_eq!(error.code, Code::PACKAGE_INTEGRITY);
    assert_eq!(machine.error_codes("app"), ["E_PACKAGE_NOT_INSTALLED"]);
}

#[tokio::test]
async fn a_frozen_installation_does_not_change_the_lockfile() {
    let machine = project_with_dependencies();
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
    machine.write_package("app", "app", "0.1.0", &local("@a/one", "^2.0.0", "one"));
    assert_eq!(machine.error_codes("app"), ["E_PACKAGE_LOCK_OUTDATED"]);
    assert_eq!(
        machine.install("app", &FROZEN).await.unwrap_err().code,
        Code::PACKAGE_LOCK_OUTDATED
    );
}

#[tokio::test]
async fn changed_installed_files_are_detected_and_repaired() {
    let machine = project_with_dependencies();
    machine.write("one/a.txt", "a");
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    let installed_path =
        |name: &str| machine.path(&format!("app/.goondan/installed/@a/one/{name}"));
    for change in [
        &(|| std::fs::write(installed_path("a.txt"), "b").unwrap()) as &dyn Fn(),
        &|| std::fs::write(installed_path("b.txt"), "").unwrap(),
        &|| std::fs::remove_file(installed_path("a.txt")).unwrap(),
        &|| std::fs::rename(installed_path("a.txt"), installed_path("c.txt")).unwrap(),
    ] {
        change();
        assert_eq!(machine.error_codes("app"), ["E_PACKAGE_INTEGRITY"]);
        assert_eq!(
            machine.install("app", &OFFLINE).await.unwrap().changed,
            ["@a/one"]
        );
        assert_eq!(machine.error_codes("app"), Vec::<&str>::new());
    }
}

#[tokio::test]
async fn a_version_conflict_shows_both_dependents() {
    let machine = project_with_dependencies();
    machine.write_package("three", "three", "1.0.0", &local("two", "^3.0.0", "two"));
    let both = format!(
        "{}, {}",
        local("@a/one", "*", "one"),
        local("three", "*", "three")
    );
    machine.write_package("app", "app", "0.1.0", &both);
    let error = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::PACKAGE_VERSION_CONFLICT);
    for dependent in ["@a/one@1.0.0 needs ^2.0.0", "three@1.0.0 needs ^3.0.0"] {
        assert!(error.message.contains(dependent), "{error}");
    }
}

#[tokio::test]
async fn a_dependency_cycle_is_an_error() {
    let machine = project_with_dependencies();
    machine.write_package("two", "two", "2.0.0", &local("app", "*", "app"));
    assert_eq!(
        machine
            .install("app", &InstallOptions::default())
            .await
            .unwrap_err()
            .code,
        Code::CYCLE
    );
    machine.write_package("two", "two", "2.0.0", &local("@a/one", "*", "one"));
    // Each package is installed once, so the installation ends. The cycle is reported when the
    // project is loaded.
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert_eq!(machine.error_codes("app"), ["E_CONFIG_CYCLE"]);
}

#[tokio::test]
async fn concurrent_installations_do_not_interfere() {
    let machine = project_with_dependencies();
    machine.write_package("other", "other", "0.1.0", &local("@a/one", "^1.0.0", "one"));
    let (default, folders) = (
        InstallOptions::default(),
        ["app", "other", "app", "other", "app", "other"],
    );
    let [a, b, c, d, e, f] = folders.map(|folder| machine.install(folder, &default));
    let all = tokio::join!(a, b, c, d, e, f);
    for outcome in [all.0, all.1, all.2, all.3, all.4, all.5] {
        assert_eq!(outcome.unwrap().packages.len(), 2);
    }
    assert!(machine.error_codes("app").is_empty() && machine.error_codes("other").is_empty());
    let work = std::fs::read_dir(machine.path("state/packages/work")).unwrap();
    assert_eq!(work.count(), 0, "temporary directories must be removed");
}
