//! Attacks of a malicious package on the machine that installs it.

use goondan_packages::{FetchSettings, InstallOptions, PackageSource};
use goondan_spec::Code;

use crate::fake_registry::Registry;
use crate::projects::{Machine, exists};
use crate::registries::publish;

#[tokio::test]
async fn a_remote_package_cannot_depend_on_local_sources() {
    let (machine, registry) = (Machine::new(), Registry::start().await);
    machine.write_package("secret", "secret", "1.0.0", "");
    let local = |source: &str| format!("{{name: secret, version: \"*\", source: \"{source}\"}}");
    for source in [
        format!("file:{}", machine.path("secret").display()),
        "file:../../../secret".to_owned(),
        registry.address("a/one"),
        "git+file:///etc".to_owned(),
        "registry+http://localhost:1".to_owned(),
        "oci://[::1]:5000/a".to_owned(),
    ] {
        let remote_settings = FetchSettings {
            folder: None,
            ..machine.fetch_settings("app")
        };
        assert!(
            PackageSource::parse(&source, &remote_settings).is_err(),
            "{source}"
        );
        machine.write_package("one", "@a/one", "1.0.0", &local(&source));
        registry.update(|state| state.manifests.clear());
        publish(&machine, "one", &registry, "a/one").await.unwrap();
        let from = registry.address("a/one");
        machine.write_package(
            "app",
            "app",
            "0.1.0",
            &format!("{{name: \"@a/one\", version: \"*\", source: \"{from}\"}}"),
        );
        let error = machine
            .install("app", &InstallOptions::default())
            .await
            .unwrap_err();
        assert!(
            error.code == Code::PACKAGE_SOURCE && error.message.contains("this machine"),
            "{source}: {error}"
        );
    }
}

#[tokio::test]
async fn a_package_with_a_different_name_is_rejected() {
    let machine = Machine::new();
    machine.write_package("one", "@evil/one", "1.0.0", "");
    machine.write_package(
        "app",
        "app",
        "0.1.0",
        "{name: \"@a/one\", version: \"*\", source: \"file:../one\"}",
    );
    let error = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::PACKAGE_SOURCE);
    assert!(!exists(&machine.path("app/.goondan/installed/@evil")));
}

#[tokio::test]
async fn names_that_are_paths_are_refused() {
    let machine = Machine::new();
    machine.write_package("one", "one", "1.0.0", "");
    // The files of a project without dependencies.
    machine.write_package("app", "app", "0.1.0", "");
    let lock = |name: &str| {
        format!(
            "lockfileVersion: 1\npackages:\n  \"{name}@1.0.0\": {{version: 1.0.0, resolved: \"file:../one\", contents: x}}\n"
        )
    };
    machine.write("app/goondan.lock.yaml", &lock("one"));
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    let files = machine.files();
    for name in ["../x", "@a/../../x", ".lock", "@a/b/c", "a b", "C:x"] {
        machine.write_package(
            "app",
            "app",
            "0.1.0",
            &format!("{{name: \"{name}\", version: \"*\", source: \"file:../one\"}}"),
        );
        assert!(
            machine
                .install("app", &InstallOptions::default())
                .await
                .is_err(),
            "{name}"
        );
        assert_eq!(machine.files(), files, "{name}");
        // The same path in the lockfile of the project.
        machine.write_package("app", "app", "0.1.0", "");
        machine.write("app/goondan.lock.yaml", &lock(name));
        machine
            .install("app", &InstallOptions::default())
            .await
            .unwrap();
        assert_eq!(machine.files(), files, "{name}");
    }
}

#[tokio::test]
#[cfg(unix)]
async fn symbolic_links_in_place_of_installed_directories_are_not_followed() {
    let machine = Machine::new();
    machine.write_package("one", "one", "1.0.0", "");
    machine.write_package(
        "app",
        "app",
        "0.1.0",
        "{name: one, version: \"*\", source: \"file:../one\"}",
    );
    std::fs::create_dir_all(machine.path("outside")).unwrap();
    std::os::unix::fs::symlink(machine.path("outside"), machine.path("app/.goondan")).unwrap();
    assert_eq!(
        machine
            .install("app", &InstallOptions::default())
            .await
            .unwrap_err()
            .code,
        Code::PATH_ESCAPE
    );
    std::fs::remove_file(machine.path("app/.goondan")).unwrap();
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    // A link in place of the package directory, with equal contents at its target.
    std::fs::rename(
        machine.path("app/.goondan/installed/one"),
        machine.path("outside/one"),
    )
    .unwrap();
    std::os::unix::fs::symlink(
        machine.path("outside/one"),
        machine.path("app/.goondan/installed/one"),
    )
    .unwrap();
    assert_eq!(machine.error_codes("app"), ["E_PACKAGE_INTEGRITY"]);
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert!(
        machine
            .path("app/.goondan/installed/one")
            .symlink_metadata()
            .unwrap()
            .is_dir()
    );
    assert!(
        exists(&machine.path("outside/one/goondan.yaml")),
        "files outside the project must remain"
    );
}
