//! Opens Tools and Extensions whose entry is a module.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::extension_protocol;
use goondan_core::ids::InstanceId;
use goondan_core::package_copies::{code_path, copy_around};
use goondan_core::ports::extension::{ExtensionCode, ExtensionSource};
use goondan_core::ports::tool::{EntryOpenError, ToolHandler, ToolSet, ToolSource};
use goondan_spec::content_hash::MAX_PACKAGE_BYTES;
use goondan_spec::kinds::{ExportSpec, Extension, ExtensionEntry, ScriptModule, Tool, ToolEntry};
use goondan_spec::{Resource, ResourceId, regular_file};

use crate::extension::ModuleExtension;
use crate::handler::ModuleHandler;
use crate::host::{ScriptHost, ScriptHostDefinition};
use crate::pool::{Contents, HostPool};
use crate::programs::HostPrograms;
use crate::runtimes;
use crate::shim;

/// Directory of the shims below the state root.
const HOSTS_FOLDER: &str = "hosts";

/// Settings of a tool's config that apply to its process. Handlers receive the other settings.
const HOST_SETTINGS: [&str; 3] = ["env", "sandbox", "limits"];

/// Opens tools and extensions in JavaScript, TypeScript and Python. Opening starts no process; the
/// first call does.
pub struct ScriptModules {
    folder: PathBuf,
    programs: Arc<dyn HostPrograms>,
    pool: HostPool,
}

/// The source files of a module.
struct SourceFiles {
    paths: Arc<[PathBuf]>,
    /// Directories from which the code imports modules by a computed path.
    computed: Arc<[PathBuf]>,
    /// Hash of the contents of the files.
    code: Arc<str>,
}

impl ScriptModules {
    /// Creates a source whose hosts `programs` starts. Shims are stored below `state_root`.
    pub fn new(state_root: &Path, programs: Arc<dyn HostPrograms>) -> Self {
        ScriptModules {
            folder: absolute(&state_root.join(HOSTS_FOLDER)),
            programs,
            pool: HostPool::default(),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn programs(&self) -> &Arc<dyn HostPrograms> {
        &self.programs
    }

    /// Ends all hosts, and waits until they have ended.
    pub async fn shutdown(&self) {
        let hosts = self.pool.all();
        futures::future::join_all(hosts.iter().map(|host| host.end())).await;
    }

    /// Removes the extensions of a retired instance from all hosts.
    pub fn instance_ended(&self, instance: &InstanceId) {
        for host in self.pool.all().iter() {
            host.forget(instance);
        }
    }

    /// Returns the host of `module`, the config for its code, and its source files with the hash of
    /// their contents.
    async fn host(
        &self,
        id: &ResourceId,
        module: &ScriptModule,
        config: JsonObject,
        bundle_root: &Path,
    ) -> Result<(Arc<ScriptHost>, JsonObject, SourceFiles), EntryOpenError> {
        let (definition, config) = define(module, config, bundle_root)
            .map_err(|(problem, remedy)| EntryOpenError::new(id, problem).suggest(remedy))?;
        let files: Arc<[PathBuf]> = module
            .files
            .iter()
            .map(|file| absolute(&bundle_root.join(file)))
            .collect();
        let read = Arc::clone(&files);
        let contents = tokio::task::spawn_blocking(move || contents(&read)).await;
        let contents = contents.map_err(|error| EntryOpenError::new(id, error))?;
        let package = match module.package.as_str() {
            "" => "the project's handler files".to_owned(),
            package => format!("the handler files in `{package}`"),
        };
        let name = format!(
            "{package} ({})",
            runtimes::runtime_display_name(definition.runtime)
        );
        let host = self
            .pool
            .host(&name, &definition, &contents, &self.folder, &self.programs);
        let hashes: Vec<&str> = contents.values().map(String::as_str).collect();
        let code = shim::hex(hashes.join(" ").as_bytes()).into();
        let computed = module.computed.iter();
        let computed = computed.map(|folder| absolute(&bundle_root.join(folder)));
        let files = SourceFiles {
            paths: files,
            computed: computed.collect(),
            code,
        };
        Ok((host, config, files))
    }
}

/// Returns the host definition of a module, and the config for its code.
pub(crate) fn define(
    module: &ScriptModule,
    config: JsonObject,
    root: &Path,
) -> Result<(ScriptHostDefinition, JsonObject), (String, String)> {
    if let Some(problem) = runtimes::problem(module, root) {
        return Err(problem);
    }
    let found = runtimes::find_runtime(module, root);
    let Some(found) = found else {
        return Err((format!("`{}` has no runtime", module.path), String::new()));
    };
    let is_setting = |name: &String| HOST_SETTINGS.contains(&name.as_str());
    let (settings, config) = config.into_iter().partition(|(name, _)| is_setting(name));
    let mut package = code_path(&absolute(&root.join(&module.package)));
    // An installed package needs no manifest of its language, and uses no files of the project.
    if let Some(copy) = copy_around(&code_path(&absolute(&root.join(&module.path))))
        && !package.starts_with(&copy)
    {
        package = copy;
    }
    let definition = ScriptHostDefinition {
        runtime: found.runtime,
        program: found.program,
        package,
        project: absolute(root),
        settings,
    };
    Ok((definition, config))
}

#[async_trait]
impl ToolSource for ScriptModules {
    async fn open(
        &self,
        tool: &Resource<Tool>,
        bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError> {
        let ToolEntry::Module(module) = &tool.spec.entry else {
            return Err(EntryOpenError::new(
                &tool.id,
                "its entry is not a handler file",
            ));
        };
        let (host, config, files) = self
            .host(&tool.id, module, tool.spec.config.clone(), bundle_root)
            .await?;
        let config = Arc::new(config);
        let new_handler = |export: &ExportSpec| {
            let handler = ModuleHandler {
                host: Arc::clone(&host),
                module: code_path(&absolute(&bundle_root.join(&module.path))),
                tool: tool.id.name.clone(),
                export: export.name.clone(),
                config: Arc::clone(&config),
                timeout: tool.spec.timeout_of(&export.name).0,
                files: Arc::clone(&files.paths),
                computed: Arc::clone(&files.computed),
                code: Arc::clone(&files.code),
            };
            (export.clone(), Arc::new(handler) as Arc<dyn ToolHandler>)
        };
        Ok(ToolSet {
            exports: tool.spec.exports.iter().map(new_handler).collect(),
            unavailable: None,
        })
    }
}

#[async_trait]
impl ExtensionSource for ScriptModules {
    async fn open(
        &self,
        extension: &Resource<Extension>,
        config: JsonObject,
        bundle_root: &Path,
    ) -> Result<Arc<dyn ExtensionCode>, EntryOpenError> {
        let ExtensionEntry::Module(module) = &extension.spec.entry else {
            return Err(EntryOpenError::new(
                &extension.id,
                "its entry is not a handler file",
            ));
        };
        let (host, config, files) = self
            .host(&extension.id, module, config, bundle_root)
            .await?;
        Ok(extension_protocol::extension(ModuleExtension {
            host,
            name: extension.id.name.clone(),
            module: code_path(&absolute(&bundle_root.join(&module.path))),
            config,
            limit: extension.spec.timeout,
            files: files.paths,
        }))
    }
}

/// Hashes `files`. Blocks.
fn contents(files: &[PathBuf]) -> Contents {
    let hash = |file: &PathBuf| {
        regular_file::read(file, MAX_PACKAGE_BYTES)
            .map(|bytes| shim::hex(&bytes))
            .unwrap_or_default()
    };
    files
        .iter()
        .map(|file| (file.clone(), hash(file)))
        .collect()
}

/// Returns `path` as an absolute path, or unchanged if the current directory is unknown.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
