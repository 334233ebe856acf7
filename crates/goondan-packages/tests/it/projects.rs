//! Directories with packages and projects.

use std::fs;
use std::path::{Path, PathBuf};

use goondan_packages::{
    FetchSettings, InstallOptions, InstallResult, PackageCache, PackageError, RegistryCredentials,
    install,
};
use tempfile::TempDir;

/// A simulated machine: a directory with projects, packages and a state root.
pub(crate) struct Machine {
    root: TempDir,
    pub(crate) credentials: RegistryCredentials,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Machine {
            root: tempfile::tempdir().unwrap(),
            credentials: RegistryCredentials::default(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes a package. `dependencies` is YAML.
    pub(crate) fn write_package(
        &self,
        folder: &str,
        name: &str,
        version: &str,
        dependencies: &str,
    ) {
        let text = format!(
            "apiVersion: goondan.ai/v1\nkind: Package\nmetadata: {{name: \"{name}\"}}\n\
             spec: {{version: {version}, dependencies: [{dependencies}]}}\n---\napiVersion: goondan.ai/v1\nkind: Model\n\
             metadata: {{name: m}}\nspec: {{provider: scripted, model: any}}\n"
        );
        self.write(&format!("{folder}/goondan.yaml"), &text);
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Returns the paths of all files and directories.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.root.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
                files.push(entry.path());
            }
        }
        files.sort();
        files
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn cache(&self) -> PackageCache {
        PackageCache::of(&self.path("state"))
    }

    pub(crate) fn fetch_settings(&self, folder: &str) -> FetchSettings {
        let folder = Some(self.path(folder));
        FetchSettings {
            folder,
            credentials: self.credentials.clone(),
            registry: "https://registry.invalid".into(),
        }
    }

    pub(crate) async fn install(
        &self,
        folder: &str,
        options: &InstallOptions,
    ) -> Result<InstallResult, PackageError> {
        install(
            &self.path(folder),
            &self.fetch_settings(folder),
            &self.cache(),
            options,
        )
        .await
    }

    /// Returns the error codes of a project.
    pub(crate) fn error_codes(&self, folder: &str) -> Vec<&'static str> {
        let base = goondan_spec::BasePackage::default();
        let root = self.path(folder);
        let input = goondan_spec::LoadInput {
            root: &root,
            files: &goondan_spec::OsFiles,
            base: &base,
        };
        goondan_spec::load(input)
            .diagnostics
            .iter()
            .map(|problem| problem.code.as_str())
            .collect()
    }
}

pub(crate) fn cached_archives(machine: &Machine) -> Vec<PathBuf> {
    let read = fs::read_dir(machine.path("state/packages/archives"));
    read.into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect()
}

pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
