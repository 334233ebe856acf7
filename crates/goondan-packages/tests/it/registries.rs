//! Packages in an OCI registry.

use axum::http::StatusCode;
use goondan_packages::archive::pack;
use goondan_packages::sources::oci;
use goondan_packages::sources::registry::PackageDescription;
use goondan_packages::{
    InstallOptions, PackageError, PackageManifest, PackageSource, RegistryCredentials,
    UpdateSelection, checkout,
};
use goondan_spec::Code;

use crate::fake_registry::Registry;
use crate::projects::Machine;

pub(crate) async fn publish(
    machine: &Machine,
    folder: &str,
    registry: &Registry,
    name: &str,
) -> Result<String, PackageError> {
    let manifest = PackageManifest::read(&machine.path(folder)).unwrap();
    let PackageSource::Oci(reference) =
        PackageSource::parse(&registry.address(name), &machine.fetch_settings(folder)).unwrap()
    else {
        panic!("an address of a registry")
    };
    let version = manifest.version.unwrap();
    let about = PackageDescription {
        name: &manifest.name,
        version: &version,
        description: "",
        restricted: false,
        tag: "latest",
    };
    let archive = pack(&machine.path(folder)).unwrap().archive;
    oci::publish(&reference, about, &archive, &machine.credentials).await
}

/// Creates a project `app` that depends on `@a/one` in a registry with the versions 1.0.0, 1.4.0
/// and 2.0.0.
async fn published(range: &str) -> (Machine, Registry) {
    let (machine, registry) = (Machine::new(), Registry::start().await);
    for version in ["1.0.0", "1.4.0", "2.0.0"] {
        machine.write_package("one", "@a/one", version, "");
        machine.write("one/version.txt", version);
        publish(&machine, "one", &registry, "a/one").await.unwrap();
    }
    let source = registry.address("a/one");
    machine.write_package(
        "app",
        "app",
        "0.1.0",
        &format!("{{name: \"@a/one\", version: \"{range}\", source: \"{source}\"}}"),
    );
    (machine, registry)
}

#[tokio::test]
async fn the_newest_matching_version_is_installed_until_an_update() {
    let (machine, registry) = published("^1.0.0").await;
    registry.update(|state| state.page_size = 1);
    let outcome = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert_eq!(outcome.packages["@a/one"], "1.4.0");
    assert_eq!(
        machine.read("app/.goondan/installed/@a/one/version.txt"),
        "1.4.0"
    );
    assert_eq!(machine.error_codes("app"), Vec::<&str>::new());
    // A newer version changes nothing until an update is requested.
    machine.write_package("one", "@a/one", "1.5.0", "");
    publish(&machine, "one", &registry, "a/one").await.unwrap();
    let lock = machine.read("app/goondan.lock.yaml");
    assert_eq!(
        machine
            .install("app", &InstallOptions::default())
            .await
            .unwrap()
            .packages["@a/one"],
        "1.4.0"
    );
    assert_eq!(machine.read("app/goondan.lock.yaml"), lock);
    let update = InstallOptions {
        update: UpdateSelection::Of(vec!["@a/one".into()]),
        ..InstallOptions::default()
    };
    assert_eq!(
        machine.install("app", &update).await.unwrap().packages["@a/one"],
        "1.5.0"
    );
    assert!(
        machine.read("app/goondan.lock.yaml").contains("oci://")
            && machine.error_codes("app").is_empty()
    );
}

#[tokio::test]
async fn a_published_version_cannot_be_replaced() {
    let (machine, registry) = published("*").await;
    let again = publish(&machine, "one", &registry, "a/one").await.unwrap();
    assert!(again.contains("@sha256:"));
    machine.write("one/version.txt", "other");
    let error = publish(&machine, "one", &registry, "a/one")
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::PACKAGE_SOURCE);
}

/// An error response for a version does not mean that the version is missing.
#[tokio::test]
async fn a_failed_version_check_does_not_replace_a_published_version() {
    let (machine, registry) = published("*").await;
    let before = registry.state.lock().unwrap().manifests.clone();
    machine.write("one/version.txt", "other");
    for status in [401, 403, 429, 500, 502, 503, 504] {
        let status = StatusCode::from_u16(status).unwrap();
        registry.update(|state| state.failures = vec![("/manifests/2.0.0", status)]);
        publish(&machine, "one", &registry, "a/one")
            .await
            .unwrap_err();
        assert_eq!(registry.state.lock().unwrap().manifests, before, "{status}");
    }
    // An additional tag with a version is also a published version.
    publish(&machine, "one", &registry, "a/one:1.4.0")
        .await
        .unwrap_err();
    assert_eq!(registry.state.lock().unwrap().manifests, before);
}

#[tokio::test]
async fn a_tag_equal_to_the_version_is_checked_once() {
    let (machine, registry) = (Machine::new(), Registry::start().await);
    machine.write_package("one", "@a/one", "1.0.0", "");
    let published = publish(&machine, "one", &registry, "a/one:1.0.0").await;
    assert!(published.is_ok(), "{published:?}");
    let state = registry.state.lock().unwrap();
    let mut paths: Vec<&str> = state
        .requests
        .iter()
        .map(|(path, _)| path.as_str())
        .collect();
    paths.retain(|path| path.contains("/manifests/"));
    let [version, latest] = ["1.0.0", "latest"].map(|tag| format!("/v2/a/one/manifests/{tag}"));
    // One request checks the version, and two write the tags.
    assert_eq!(paths, [&version, &version, &latest]);
}

#[tokio::test]
async fn a_request_with_retry_after_is_retried() {
    let (machine, registry) = (Machine::new(), Registry::start().await);
    machine.write_package("one", "@a/one", "1.0.0", "");
    let source = registry.address("a/one");
    let dependency = format!("{{name: \"@a/one\", version: \"*\", source: \"{source}\"}}");
    machine.write_package("app", "app", "0.1.0", &dependency);
    let defer = |parts: &[&'static str]| {
        let failures = parts.iter().flat_map(|part| {
            [
                (*part, StatusCode::TOO_MANY_REQUESTS),
                (*part, StatusCode::SERVICE_UNAVAILABLE),
            ]
        });
        let failures = failures.collect();
        registry.update(|state| state.failures = failures);
    };
    defer(&["/manifests/1.0.0", "/blobs/uploads/", "/manifests/latest"]);
    publish(&machine, "one", &registry, "a/one").await.unwrap();
    defer(&["/tags/list", "/manifests/", "/blobs/"]);
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert_eq!(registry.state.lock().unwrap().failures, []);
}

#[tokio::test]
async fn changed_registry_contents_fail_the_integrity_check() {
    let (machine, registry) = published("=1.4.0").await;
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    let remove_installed_files = || {
        std::fs::remove_dir_all(machine.path("app/.goondan")).unwrap();
        std::fs::remove_dir_all(machine.path("state")).unwrap();
    };
    remove_installed_files();
    // Replace the manifest of the digest.
    let original_manifests = registry.state.lock().unwrap().manifests.clone();
    registry.update(|state| {
        let other = state.manifests["a/one:2.0.0"].clone();
        state
            .manifests
            .iter_mut()
            .for_each(|(_, manifest)| manifest.clone_from(&other));
    });
    let error = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::PACKAGE_INTEGRITY);
    // Replace the archive.
    registry.update(|state| {
        state.manifests = original_manifests;
        state
            .blobs
            .values_mut()
            .filter(|blob| blob.len() > 2)
            .for_each(|blob| *blob.last_mut().unwrap() ^= 1);
    });
    let error = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::PACKAGE_INTEGRITY);
    assert_eq!(machine.error_codes("app"), ["E_PACKAGE_NOT_INSTALLED"]);
}

#[tokio::test]
async fn a_moved_tag_does_not_change_a_locked_installation() {
    let (machine, registry) = published("^1.0.0").await;
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    std::fs::remove_dir_all(machine.path("app/.goondan")).unwrap();
    std::fs::remove_dir_all(machine.path("state")).unwrap();
    registry.update(|state| {
        let other = state.manifests["a/one:2.0.0"].clone();
        state.manifests.insert("a/one:1.4.0".into(), other);
    });
    machine
        .install(
            "app",
            &InstallOptions {
                frozen: true,
                ..InstallOptions::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(
        machine.read("app/.goondan/installed/@a/one/version.txt"),
        "1.4.0"
    );
}

#[tokio::test]
async fn credentials_are_not_sent_to_a_redirect_target() {
    let (mut machine, registry) = published("^1.0.0").await;
    // Base64 of `me:secret`.
    registry.update(|state| state.required_credentials = Some("Basic bWU6c2VjcmV0"));
    let error = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::PACKAGE_AUTH);
    assert!(error.suggestion.unwrap().contains("docker login"));
    let host = registry.host.clone();
    let auth = format!("{host}=me:secret");
    machine.credentials =
        RegistryCredentials::find(&|name| (name == "GOONDAN_REGISTRY_AUTH").then(|| auth.clone()));
    // Archives are on another host, which must not receive credentials.
    let mirror = Registry::start().await;
    registry.update(|state| {
        mirror.update(|mirror_state| mirror_state.blobs = state.blobs.clone());
        state.redirect = Some(format!(
            "http://localhost:{}",
            mirror.host.split(':').nth(1).unwrap()
        ));
    });
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    let requests = std::mem::take(&mut mirror.state.lock().unwrap().requests);
    assert!(
        !requests.is_empty()
            && requests
                .iter()
                .all(|(_, authorization)| authorization.is_none()),
        "{requests:?}"
    );
    let requests = std::mem::take(&mut registry.state.lock().unwrap().requests);
    assert!(requests.iter().any(|(path, authorization)| path == "/token"
        && authorization.as_deref() == Some("Basic bWU6c2VjcmV0")));
    machine.credentials = RegistryCredentials::find(&|name| {
        (name == "GOONDAN_REGISTRY_AUTH").then(|| format!("{host}=me:wrong"))
    });
    std::fs::remove_dir_all(machine.path("app/.goondan")).unwrap();
    std::fs::remove_dir_all(machine.path("state")).unwrap();
    assert_eq!(
        machine
            .install("app", &InstallOptions::default())
            .await
            .unwrap_err()
            .code,
        Code::PACKAGE_AUTH
    );
}

#[tokio::test]
async fn a_container_image_is_not_a_package() {
    let (machine, registry) = published("^1.0.0").await;
    registry.update(|state| {
        let text = String::from_utf8(state.manifests["a/one:1.4.0"].clone()).unwrap();
        let image = text.replace("goondan.package", "somebody.else");
        state
            .manifests
            .insert("a/one:1.4.0".into(), image.into_bytes());
    });
    let error = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap_err();
    assert!(
        error.code == Code::PACKAGE_SOURCE && error.message.contains("not a package"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_package_checkout_is_reused_and_verified() {
    let (machine, registry) = published("*").await;
    let run = async || {
        checkout(
            &registry.address("a/one:1.0.0"),
            &machine.fetch_settings("app"),
            &machine.cache(),
        )
        .await
    };
    let first = run().await.unwrap();
    assert_eq!(run().await.unwrap(), first);
    let newest = checkout(
        &registry.address("a/one"),
        &machine.fetch_settings("app"),
        &machine.cache(),
    )
    .await
    .unwrap();
    assert_ne!(newest.folder, first.folder);
    std::fs::write(first.folder.join("version.txt"), "evil").unwrap();
    assert_eq!(run().await.unwrap_err().code, Code::PACKAGE_INTEGRITY);
}
