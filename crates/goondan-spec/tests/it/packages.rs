//! Installed packages: the resources that they add to a project, and errors of missing, outdated or
//! changed packages.

use std::path::Path;

use goondan_spec::content_hash::contents;
use goondan_spec::installed_packages::installed_folder;
use goondan_spec::lock::{LockedPackage, PackageLock};
use goondan_spec::{BasePackage, Kind, LoadInput, LoadResult, MemoryFiles, ResourceId, load};

const MODEL: &str = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: scripted, model: any}\n";

fn package(name: &str, version: &str, dependencies: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Package\nmetadata: {{name: \"{name}\"}}\n\
         spec: {{version: {version}, dependencies: [{dependencies}]}}\n---\n"
    )
}

fn agent(name: &str, more: &str) -> String {
    format!(
        "---\napiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: {name}}}\n\
         spec: {{modelConfig: {{modelRef: Model/m}}{more}}}\n"
    )
}

fn dependency(name: &str, range: &str) -> String {
    format!("{{name: \"{name}\", version: \"{range}\"}}")
}

fn loaded(files: &MemoryFiles) -> LoadResult {
    load(LoadInput {
        root: Path::new("/p"),
        files,
        base: &BasePackage::default(),
    })
}

/// Adds the files of a package, and its entry in the lock file.
fn install(
    mut files: MemoryFiles,
    lock: &mut PackageLock,
    name: &str,
    version: &str,
    content: &[(&str, &str)],
) -> MemoryFiles {
    let folder = format!("/p/{}", installed_folder(name));
    for (file, text) in content {
        files = files.file(format!("{folder}/{file}"), *text);
    }
    let contents = contents(&files, Path::new(&folder)).unwrap();
    let locked = LockedPackage {
        version: version.into(),
        resolved: "file:x".into(),
        contents: Some(contents),
        ..LockedPackage::default()
    };
    lock.packages.insert(format!("{name}@{version}"), locked);
    files
}

/// Returns a project that depends on `@a/one`, which depends on `two`.
fn project(own: &str, one: &str, two: &str) -> (MemoryFiles, PackageLock) {
    let mut lock = PackageLock::new(Default::default());
    let files = MemoryFiles::new().file("/p/goondan.yaml", own);
    let files = install(
        files,
        &mut lock,
        "@a/one",
        "1.2.0",
        &[("goondan.yaml", one), ("prompts/p.md", "Be kind.")],
    );
    let files = install(files, &mut lock, "two", "2.0.0", &[("goondan.yaml", two)]);
    (files, lock)
}

fn own(range: &str, more: &str) -> String {
    format!(
        "{}{MODEL}{more}",
        package("app", "0.1.0", &dependency("@a/one", range))
    )
}

fn one(more: &str) -> String {
    format!(
        "{}{MODEL}{more}",
        package("@a/one", "1.2.0", &dependency("two", "^2.0.0"))
    )
}

fn two() -> String {
    format!(
        "{}{MODEL}{}",
        package("two", "2.0.0", ""),
        agent("deep", "")
    )
}

fn locked(files: MemoryFiles, lock: &PackageLock) -> MemoryFiles {
    files.file("/p/goondan.lock.yaml", lock.render())
}

/// Returns the errors as `file:line CODE`.
fn found(loaded: &LoadResult) -> Vec<String> {
    let line = |problem: &goondan_spec::Diagnostic| problem.position.map_or(0, |at| at.line);
    let shown = |problem: &goondan_spec::Diagnostic| {
        format!(
            "{}:{} {}",
            problem.file.as_deref().unwrap_or_default(),
            line(problem),
            problem.code.as_str()
        )
    };
    loaded
        .diagnostics
        .iter()
        .filter(|problem| problem.is_error())
        .map(shown)
        .collect()
}

#[test]
fn package_resources_load_with_paths_relative_to_the_package() {
    let swarm = "---\napiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {name: default}\n\
                 spec: {entryAgent: Agent/helper, agents: [{ref: Agent/helper}]}\n";
    let helper = agent("helper", ", prompt: {systemRef: ./prompts/p.md}");
    let (files, lock) = project(
        &own("^1.0.0", swarm),
        &one(&format!("{helper}{swarm}")),
        &two(),
    );
    let loaded = loaded(&locked(files, &lock));
    assert_eq!(found(&loaded), Vec::<String>::new());
    let bundle = loaded.bundle.unwrap();
    let id = ResourceId {
        package: Some("@a/one".into()),
        kind: Kind::Agent,
        name: "helper".into(),
    };
    assert_eq!(
        bundle.agents()[&id].spec.prompt.as_ref().unwrap().text,
        "Be kind."
    );
    // The swarm of a package is not part of the project.
    assert_eq!(bundle.swarms().len(), 1);
    let order: Vec<&str> = bundle
        .packages()
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    assert_eq!(order, ["two", "@a/one"]);
    assert_eq!(
        bundle
            .package_of(".goondan/installed/two/goondan.yaml")
            .unwrap()
            .version,
        "2.0.0"
    );
    assert_eq!(
        bundle.package_of(".goondan/installed/twofold/goondan.yaml"),
        None
    );
}

#[test]
fn references_reach_only_direct_dependencies() {
    let swarm = |reference: &str| {
        format!(
            "---\napiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {{name: default}}\n\
             spec: {{entryAgent: {reference}, agents: [{{ref: {reference}}}]}}\n"
        )
    };
    for (reference, code) in [
        ("{kind: Agent, name: helper, package: \"@a/one\"}", None),
        (
            "{kind: Agent, name: nobody, package: \"@a/one\"}",
            Some("E_CONFIG_REF_NOT_FOUND"),
        ),
        // The project cannot reference a dependency of its dependency.
        ("Agent/deep", Some("E_CONFIG_REF_NOT_FOUND")),
        (
            "{kind: Agent, name: deep, package: two}",
            Some("E_CONFIG_REF_NOT_FOUND"),
        ),
    ] {
        let (files, lock) = project(
            &own("^1.0.0", &swarm(reference)),
            &one(&agent("helper", "")),
            &two(),
        );
        let loaded = loaded(&locked(files, &lock));
        let codes: Vec<&str> = loaded
            .diagnostics
            .iter()
            .filter(|problem| problem.is_error())
            .map(|problem| problem.code.as_str())
            .collect();
        assert_eq!(codes.first().copied(), code, "{reference}");
    }
}

#[test]
fn missing_outdated_or_changed_packages_are_reported_at_their_line() {
    let (files, lock) = project(
        &own("^1.0.0", &agent("a", ", tools: [{ref: Tool/of-one}]")),
        &one(""),
        &two(),
    );
    // A reference that the missing package may define is not an error.
    assert_eq!(
        found(&loaded(&files)),
        ["goondan.yaml:4 E_PACKAGE_NOT_INSTALLED"]
    );
    let (files, _) = project(&own("^1.0.0", ""), &one(""), &two());
    let empty = locked(files.clone(), &PackageLock::new(Default::default()));
    assert_eq!(
        found(&loaded(&empty)),
        ["goondan.yaml:4 E_PACKAGE_LOCK_OUTDATED"]
    );
    let broken = files.clone().file("/p/goondan.lock.yaml", "packages: [");
    assert_eq!(
        found(&loaded(&broken))[0],
        "goondan.lock.yaml:0 E_PACKAGE_LOCK_OUTDATED"
    );
    let changed =
        locked(files.clone(), &lock).file("/p/.goondan/installed/@a/one/prompts/p.md", "Be evil.");
    assert_eq!(
        found(&loaded(&changed)),
        ["goondan.yaml:4 E_PACKAGE_INTEGRITY"]
    );
    let linked = locked(files, &lock).link("/p/.goondan/installed/@a/one/x", "/etc/passwd");
    assert_eq!(
        found(&loaded(&linked)),
        ["goondan.yaml:4 E_PACKAGE_INTEGRITY"]
    );
    let (files, lock) = project(&own("^2.0.0", ""), &one(""), &two());
    assert_eq!(
        found(&loaded(&locked(files, &lock))),
        ["goondan.yaml:4 E_PACKAGE_LOCK_OUTDATED"]
    );
}

#[test]
fn version_conflicts_and_cycles_are_reported_at_the_dependency() {
    let other = format!(
        "{}{MODEL}",
        package("@a/one", "1.2.0", &dependency("two", "^3.0.0"))
    );
    let (files, lock) = project(&own("^1.0.0", ""), &other, &two());
    let conflict = loaded(&locked(files, &lock));
    assert_eq!(
        found(&conflict),
        [".goondan/installed/@a/one/goondan.yaml:4 E_PACKAGE_VERSION_CONFLICT"]
    );
    let back = format!(
        "{}{MODEL}",
        package("two", "2.0.0", &dependency("@a/one", "*"))
    );
    let (files, lock) = project(&own("^1.0.0", ""), &one(""), &back);
    assert_eq!(
        found(&loaded(&locked(files, &lock))),
        [".goondan/installed/two/goondan.yaml:4 E_CONFIG_CYCLE"]
    );
}

#[test]
fn package_paths_cannot_leave_the_package_directory() {
    for path in [
        "../two/goondan.yaml",
        "../../../goondan.yaml",
        "/etc/passwd",
    ] {
        let helper = agent("helper", &format!(", prompt: {{systemRef: \"{path}\"}}"));
        let (files, lock) = project(&own("^1.0.0", ""), &one(&helper), &two());
        let codes = found(&loaded(&locked(files, &lock)));
        assert_eq!(
            codes,
            [".goondan/installed/@a/one/goondan.yaml:14 E_CONFIG_PATH_ESCAPE"],
            "{path}"
        );
    }
}

#[test]
fn platform_in_an_entry_selects_the_current_platform() {
    let tool = "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: t}\n\
                spec: {entry: \"./bin/{platform}/t\", exports: [{name: x, description: x, parameters: {type: object}}]}\n";
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    for (folder, expected) in [(platform.as_str(), 0), ("plan9-mips", 1)] {
        let manifest = one(tool);
        let file = format!("bin/{folder}/t/tool.yaml");
        let content = [
            ("goondan.yaml", manifest.as_str()),
            (
                &file,
                "name: t\ndescription: x\nversion: 1.0.0\nentrypoint: t.sh\n",
            ),
            (&file.replace("tool.yaml", "t.sh"), "#!/bin/sh\n"),
        ];
        let mut lock = PackageLock::new(Default::default());
        let files = MemoryFiles::new().file("/p/goondan.yaml", own("^1.0.0", ""));
        let files = install(files, &mut lock, "@a/one", "1.2.0", &content);
        let files = install(
            files,
            &mut lock,
            "two",
            "2.0.0",
            &[("goondan.yaml", &two())],
        );
        let loaded = loaded(&locked(files, &lock));
        let missing = loaded
            .diagnostics
            .iter()
            .filter(|problem| problem.code.as_str() == "E_PACKAGE_PLATFORM");
        let missing: Vec<&str> = missing.map(|problem| problem.message.as_str()).collect();
        assert_eq!(missing.len(), expected, "{:?}", found(&loaded));
        assert!(
            missing
                .iter()
                .all(|message| message.contains("only for") && message.contains("plan9-mips"))
        );
    }
}
