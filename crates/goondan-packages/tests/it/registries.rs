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

use crate::fake::Registry;
use crate::projects::Machine;

pub(crate) async fn publish(
    machine: &Machine,
    folder: &str,
    registry: &Registry,
    name: &str,
) -> Result<String, PackageError> {
    let manifest = PackageManifest::read(&machine.path(folder)).unwrap();
    let PackageSource::Oci(reference) =
        PackageSource::parse(&registry.address(name), &machine.reach(folder)).unwrap()
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
        machine.package("one", "@a/one", version, "");
        machine.write("one/version.txt", version);
        publish(&machine, "one", &registry, "a/one").await.unwrap();
    }
    let source = registry.address("a/one");
    machine.package(
        "app",
        "app",
        "0.1.0",
        &format!("{{name: \"@a/one\", version: \"{range}\", source: \"{source}\"}}"),
    );
    (machine, registry)
}

#[tokio::test]
async fn the_newest_version_that_fits_is_installed_and_stays() {
    let (machine, registry) = published("^1.0.0").await;
    registry.change(|shelf| shelf.page = 1);
    let outcome = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert_eq!(outcome.packages["@a/one"], "1.4.0");
    assert_eq!(
        machine.read("app/.goondan/installed/@a/one/version.txt"),
        "1.4.0"
    );
    assert_eq!(machine.problems("app"), Vec::<&str>::new());
    // A newer version changes nothing until an update is requested.
    machine.package("one", "@a/one", "1.5.0", "");
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
            && machine.problems("app").is_empty()
    );
}

#[tokio::test]
async fn what_is_published_stays_as_it_is() {
    let (machine, registry) = published("*").await;
    let again = publish(&machine, "one", &registry, "a/one").await.unwrap();
    assert!(again.contains("@sha256:"));
    machine.write("one/version.txt", "other");
    let refused = publish(&machine, "one", &registry, "a/one")
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::PACKAGE_SOURCE);
}

/// A refusal to show a version does not mean that the version is missing.
#[tokio::test]
async fn a_refused_look_at_a_version_replaces_nothing() {
    let (machine, registry) = published("*").await;
    let before = registry.shelf.lock().unwrap().manifests.clone();
    machine.write("one/version.txt", "other");
    for status in [401, 403, 429, 500, 502, 503, 504] {
        let status = StatusCode::from_u16(status).unwrap();
        registry.change(|shelf| shelf.refusals = vec![("/manifests/2.0.0", status)]);
        publish(&machine, "one", &registry, "a/one")
            .await
            .unwrap_err();
        assert_eq!(registry.shelf.lock().unwrap().manifests, before, "{status}");
    }
    // A further tag with a version is also a published version.
    publish(&machine, "one", &registry, "a/one:1.4.0")
        .await
        .unwrap_err();
    assert_eq!(registry.shelf.lock().unwrap().manifests, before);
}

#[tokio::test]
async fn a_tag_that_is_stated_twice_is_checked_once() {
    let (machine, registry) = (Machine::new(), Registry::start().await);
    machine.package("one", "@a/one", "1.0.0", "");
    let published = publish(&machine, "one", &registry, "a/one:1.0.0").await;
    assert!(published.is_ok(), "{published:?}");
    let shelf = registry.shelf.lock().unwrap();
    let mut paths: Vec<&str> = shelf.seen.iter().map(|(path, _)| path.as_str()).collect();
    paths.retain(|path| path.contains("/manifests/"));
    let [version, latest] = ["1.0.0", "latest"].map(|tag| format!("/v2/a/one/manifests/{tag}"));
    // One request checks the version, and two write the tags.
    assert_eq!(paths, [&version, &version, &latest]);
}

#[tokio::test]
async fn a_deferred_request_is_repeated() {
    let (machine, registry) = (Machine::new(), Registry::start().await);
    machine.package("one", "@a/one", "1.0.0", "");
    let source = registry.address("a/one");
    let dependency = format!("{{name: \"@a/one\", version: \"*\", source: \"{source}\"}}");
    machine.package("app", "app", "0.1.0", &dependency);
    let defer = |parts: &[&'static str]| {
        let refusals = parts.iter().flat_map(|part| {
            [
                (*part, StatusCode::TOO_MANY_REQUESTS),
                (*part, StatusCode::SERVICE_UNAVAILABLE),
            ]
        });
        let refusals = refusals.collect();
        registry.change(|shelf| shelf.refusals = refusals);
    };
    defer(&["/manifests/1.0.0", "/blobs/uploads/", "/manifests/latest"]);
    publish(&machine, "one", &registry, "a/one").await.unwrap();
    defer(&["/tags/list", "/manifests/", "/blobs/"]);
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    assert_eq!(registry.shelf.lock().unwrap().refusals, []);
}

#[tokio::test]
async fn a_registry_that_delivers_something_else_is_found_out() {
    let (machine, registry) = published("=1.4.0").await;
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    let fresh = || {
        std::fs::remove_dir_all(machine.path("app/.goondan")).unwrap();
        std::fs::remove_dir_all(machine.path("state")).unwrap();
    };
    fresh();
    // Replace the manifest of the digest.
    let known = registry.shelf.lock().unwrap().manifests.clone();
    registry.change(|shelf| {
        let other = shelf.manifests["a/one:2.0.0"].clone();
        shelf
            .manifests
            .iter_mut()
            .for_each(|(_, manifest)| manifest.clone_from(&other));
    });
    let refused = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::PACKAGE_INTEGRITY);
    // Replace the archive.
    registry.change(|shelf| {
        shelf.manifests = known;
        shelf
            .blobs
            .values_mut()
            .filter(|blob| blob.len() > 2)
            .for_each(|blob| *blob.last_mut().unwrap() ^= 1);
    });
    let refused = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::PACKAGE_INTEGRITY);
    assert_eq!(machine.problems("app"), ["E_PACKAGE_NOT_INSTALLED"]);
}

#[tokio::test]
async fn a_tag_that_leads_elsewhere_later_changes_nothing() {
    let (machine, registry) = published("^1.0.0").await;
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    std::fs::remove_dir_all(machine.path("app/.goondan")).unwrap();
    std::fs::remove_dir_all(machine.path("state")).unwrap();
    registry.change(|shelf| {
        let other = shelf.manifests["a/one:2.0.0"].clone();
        shelf.manifests.insert("a/one:1.4.0".into(), other);
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
async fn who_asks_is_told_to_that_registry_alone() {
    let (mut machine, registry) = published("^1.0.0").await;
    // Base64 of `me:secret`.
    registry.change(|shelf| shelf.wants = Some("Basic bWU6c2VjcmV0"));
    let refused = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::PACKAGE_AUTH);
    assert!(refused.suggestion.unwrap().contains("docker login"));
    let host = registry.host.clone();
    let auth = format!("{host}=me:secret");
    machine.credentials =
        RegistryCredentials::find(&|name| (name == "GOONDAN_REGISTRY_AUTH").then(|| auth.clone()));
    // Archives are on another host, which gets no credentials.
    let mirror = Registry::start().await;
    registry.change(|shelf| {
        mirror.change(|there| there.blobs = shelf.blobs.clone());
        shelf.redirect = Some(format!(
            "http://localhost:{}",
            mirror.host.split(':').nth(1).unwrap()
        ));
    });
    machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap();
    let seen = std::mem::take(&mut mirror.shelf.lock().unwrap().seen);
    assert!(
        !seen.is_empty() && seen.iter().all(|(_, who)| who.is_none()),
        "{seen:?}"
    );
    let seen = std::mem::take(&mut registry.shelf.lock().unwrap().seen);
    assert!(
        seen.iter()
            .any(|(path, who)| path == "/token" && who.as_deref() == Some("Basic bWU6c2VjcmV0"))
    );
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
async fn an_image_is_no_package() {
    let (machine, registry) = published("^1.0.0").await;
    registry.change(|shelf| {
        let text = String::from_utf8(shelf.manifests["a/one:1.4.0"].clone()).unwrap();
        let image = text.replace("goondan.package", "somebody.else");
        shelf
            .manifests
            .insert("a/one:1.4.0".into(), image.into_bytes());
    });
    let refused = machine
        .install("app", &InstallOptions::default())
        .await
        .unwrap_err();
    assert!(
        refused.code == Code::PACKAGE_SOURCE && refused.message.contains("not a package"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_published_swarm_is_unpacked_once_and_may_not_change() {
    let (machine, registry) = published("*").await;
    let run = async || {
        checkout(
            &registry.address("a/one:1.0.0"),
            &machine.reach("app"),
            &machine.cache(),
        )
        .await
    };
    let first = run().await.unwrap();
    assert_eq!(run().await.unwrap(), first);
    let newest = checkout(
        &registry.address("a/one"),
        &machine.reach("app"),
        &machine.cache(),
    )
    .await
    .unwrap();
    assert_ne!(newest.folder, first.folder);
    std::fs::write(first.folder.join("version.txt"), "evil").unwrap();
    assert_eq!(run().await.unwrap_err().code, Code::PACKAGE_INTEGRITY);
}
