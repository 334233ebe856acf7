//! Opens Tool resources whose entry is a module.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{OpenError, ToolHandler, ToolSet, ToolSource};
use goondan_spec::Resource;
use goondan_spec::kinds::{Entry, ExportSpec, Module, Tool};

use crate::handler::ModuleHandler;
use crate::host::Definition;
use crate::pool::{Contents, Pool};
use crate::programs::HostPrograms;
use crate::runtimes;
use crate::shim;

/// Where shims lie, below the state root.
const FOLDER: &str = "hosts";

/// The settings in a tool's config that are about its process; the handlers get the others.
const SETTINGS: [&str; 3] = ["env", "sandbox", "limits"];

/// Opens tools in JavaScript, TypeScript and Python. Opening starts nothing: the first call does.
pub struct ModuleTools {
    folder: PathBuf,
    programs: Arc<dyn HostPrograms>,
    pool: Pool,
}

impl ModuleTools {
    /// A source whose hosts are started by `programs`. What they load is kept below `state_root`.
    pub fn new(state_root: &Path, programs: Arc<dyn HostPrograms>) -> Self {
        ModuleTools { folder: absolute(&state_root.join(FOLDER)), programs, pool: Pool::default() }
    }

    /// Ends all hosts, and waits until they have ended.
    pub async fn shutdown(&self) {
        let hosts = self.pool.all();
        futures::future::join_all(hosts.iter().map(|host| host.end())).await;
    }

    fn define(&self, tool: &Tool, module: &Module, root: &Path) -> Result<(Definition, JsonObject), (String, String)> {
        if let Some(problem) = runtimes::problem(module, root) {
            return Err(problem);
        }
        let found = runtimes::found(module, root);
        let Some(found) = found else { return Err((format!("`{}` has no runtime", module.path), String::new())) };
        let is_setting = |name: &String| SETTINGS.contains(&name.as_str());
        let (settings, config) = tool.config.clone().into_iter().partition(|(name, _)| is_setting(name));
        let definition = Definition {
            runtime: found.runtime,
            program: found.program,
            package: absolute(&root.join(&module.package)),
            project: absolute(root),
            settings,
        };
        Ok((definition, config))
    }
}

#[async_trait]
impl ToolSource for ModuleTools {
    async fn open(&self, tool: &Resource<Tool>, bundle_root: &Path) -> Result<ToolSet, OpenError> {
        let Entry::Module(module) = &tool.spec.entry else {
            return Err(OpenError::new(&tool.id, "its entry is no module"));
        };
        let (definition, config) = self
            .define(&tool.spec, module, bundle_root)
            .map_err(|(problem, remedy)| OpenError::new(&tool.id, problem).suggest(remedy))?;
        let files: Arc<[PathBuf]> = module.files.iter().map(|file| absolute(&bundle_root.join(file))).collect();
        let read = Arc::clone(&files);
        let contents = tokio::task::spawn_blocking(move || contents(&read)).await;
        let contents = contents.map_err(|error| OpenError::new(&tool.id, error))?;
        let package = match module.package.as_str() {
            "" => "the project's modules".to_owned(),
            package => format!("the modules in `{package}`"),
        };
        let name = format!("{package} ({})", runtimes::called(definition.runtime));
        let host = self.pool.host(&name, &definition, &contents, &self.folder, &self.programs);
        let config = Arc::new(config);
        let handler = |export: &ExportSpec| {
            let handler = ModuleHandler {
                host: Arc::clone(&host),
                module: absolute(&bundle_root.join(&module.path)),
                export: export.name.clone(),
                config: Arc::clone(&config),
                timeout: tool.spec.timeout,
                files: Arc::clone(&files),
            };
            (export.clone(), Arc::new(handler) as Arc<dyn ToolHandler>)
        };
        Ok(ToolSet { exports: tool.spec.exports.iter().map(handler).collect() })
    }
}

/// What is in `files`. Blocks.
fn contents(files: &[PathBuf]) -> Contents {
    let hash = |file: &PathBuf| std::fs::read(file).map(|bytes| shim::hex(&bytes)).unwrap_or_default();
    files.iter().map(|file| (file.clone(), hash(file))).collect()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
