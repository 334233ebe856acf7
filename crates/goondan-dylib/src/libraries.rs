//! Opens Tool and Extension resources whose entry is a library. Connectors are in `connector.rs`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use goondan_abi::wire;
use goondan_core::JsonObject;
use goondan_core::extension_protocol;
use goondan_core::ids::InstanceId;
use goondan_core::ports::extension::{ExtensionCode, ExtensionSource};
use goondan_core::ports::tool::{EntryOpenError, ToolHandler, ToolSet, ToolSource};
use goondan_spec::Resource;
use goondan_spec::kinds::{ExportSpec, Extension, ExtensionEntry, Tool, ToolEntry};
use tokio::sync::Mutex;

use crate::calls::LibraryCalls;
use crate::connection::LibraryConnection;
use crate::counters::LibraryCounters;
use crate::extension::LibraryExtension;
use crate::failure::LibraryFailure;
use crate::handler::ExportHandler;
use crate::hosted::{FullQueuePolicy, HostCommand, HostProcess, HostedLibrary, StartedHostProcess};
use crate::image;
use crate::library_thread::{LibraryDescription, LibraryThread, LibraryThreadStart};
use crate::limits::LibraryLimits;
use crate::locate;
use crate::manifest;
use crate::opened_library::{LibraryLocation, OpenedLibrary};
use crate::staging::{LibraryImage, StagingDirectory};
use crate::threads::LibraryThreads;

/// Opens dynamic libraries as tools and extensions.
///
/// A library with unchanged contents is not loaded again: its handlers share the loaded one. A
/// changed library is loaded in addition to the old one, which is closed when its last handler is
/// dropped.
pub struct DynamicLibraries {
    staging_root: PathBuf,
    limits: LibraryLimits,
    host: Option<HostCommand>,
    opened: Mutex<OpenedLibraries>,
    /// Libraries in which extensions may have registered.
    extended: std::sync::Mutex<Vec<Weak<OpenedLibrary>>>,
    threads: Arc<LibraryThreads>,
    counters: Arc<LibraryCounters>,
}

#[derive(Default)]
struct OpenedLibraries {
    /// Created on demand: most swarms load no library.
    staging: Option<Arc<StagingDirectory>>,
    by_content: HashMap<(PathBuf, String), Weak<OpenedLibrary>>,
    /// The last copy of each file that connectors' host processes load, with the hash of its
    /// contents.
    copies: HashMap<PathBuf, (String, PathBuf)>,
}

impl DynamicLibraries {
    /// Creates a source that loads libraries into this process. Copies go to a directory under
    /// `staging_root`, which must allow execution.
    pub fn new(staging_root: impl Into<PathBuf>, limits: LibraryLimits) -> Self {
        DynamicLibraries {
            staging_root: staging_root.into(),
            limits,
            host: None,
            opened: Mutex::default(),
            extended: std::sync::Mutex::default(),
            threads: Arc::default(),
            counters: Arc::default(),
        }
    }

    /// Creates a source that loads each library into its own process, started with `host`
    /// (`isolation: process`).
    pub fn hosted(
        staging_root: impl Into<PathBuf>,
        limits: LibraryLimits,
        host: HostCommand,
    ) -> Self {
        DynamicLibraries {
            host: Some(host),
            ..DynamicLibraries::new(staging_root, limits)
        }
    }

    /// Returns the counters of its libraries.
    pub fn counters(&self) -> &LibraryCounters {
        &self.counters
    }

    /// Closes every library and waits for the end of its thread, at most `time_limit`. Returns the
    /// names of libraries whose code still runs. In that case, leave the process without running
    /// exit handlers.
    pub async fn shutdown(&self, time_limit: Duration) -> Vec<String> {
        self.threads.close(time_limit).await
    }

    /// Removes the extensions of a retired instance from all libraries.
    pub fn instance_ended(&self, instance: &InstanceId) {
        let mut extended = self.extended.lock().unwrap_or_else(PoisonError::into_inner);
        extended.retain(|library| library.strong_count() > 0);
        for library in extended.iter().filter_map(Weak::upgrade) {
            library.forget(instance);
        }
    }

    /// Returns the library at `entry`. A library with the same content is opened once.
    async fn open_library(
        &self,
        entry: &str,
        root: &Path,
    ) -> Result<LocatedLibrary, LibraryFailure> {
        let source = locate::library(root, entry)?;
        let image = run_blocking(move || LibraryImage::read(&source)).await?;
        // Held throughout, so that two resources with the same entry share one library.
        let mut opened = self.opened.lock().await;
        let name = image.name();
        let content = image.hash.clone();
        let file = image.source.clone();
        let key = (file.clone(), content.clone());
        let opened_library = opened
            .by_content
            .get(&key)
            .and_then(Weak::upgrade)
            .filter(|library| library.is_fit());
        let library = match opened_library {
            Some(library) => library,
            None => {
                let path = stage(self.staging(&mut opened).await?, image).await?;
                Arc::new(self.start(path, name.clone()).await?)
            }
        };
        opened
            .by_content
            .retain(|_, library| library.strong_count() > 0);
        opened.by_content.insert(key, Arc::downgrade(&library));
        Ok(LocatedLibrary {
            library,
            name,
            content,
            file,
        })
    }

    /// Makes a private copy of the library of `entry`, and returns it with its name. Host processes
    /// may share the copy, because each maps it separately.
    pub(crate) async fn copy(
        &self,
        entry: &str,
        root: &Path,
    ) -> Result<(PathBuf, String), LibraryFailure> {
        let source = locate::library(root, entry)?;
        let image = run_blocking(move || LibraryImage::read(&source)).await?;
        let mut opened = self.opened.lock().await;
        let name = image.name();
        let content = image.hash.clone();
        let file = image.source.clone();
        if let Some((_, path)) = opened
            .copies
            .get(&file)
            .filter(|(known, _)| *known == content)
        {
            return Ok((path.clone(), name));
        }
        let path = stage(self.staging(&mut opened).await?, image).await?;
        opened.copies.insert(file, (content, path.clone()));
        Ok((path, name))
    }

    /// Starts a host process for one long call into the library at `path`, and returns it with the
    /// manifest.
    pub(crate) async fn host_alone(
        &self,
        path: &Path,
        name: &str,
    ) -> Result<(HostProcess, wire::Manifest), LibraryFailure> {
        let name = name.to_owned();
        let Some(host) = &self.host else {
            return Err(LibraryFailure::NotHosted { name });
        };
        if self.threads.are_closed() {
            return Err(LibraryFailure::Cancelled { name });
        }
        let started = HostProcess::start(
            host,
            path,
            &name,
            &self.limits,
            &self.counters,
            FullQueuePolicy::InTurn,
        )
        .await?;
        let StartedHostProcess {
            process,
            manifest,
            command_sender,
            reader,
        } = started;
        self.threads.remember(&name, command_sender, reader);
        Ok((process, manifest))
    }

    /// Returns the library at `entry` and its exports for `tool`.
    async fn open_tool(
        &self,
        tool: &Tool,
        entry: &str,
        root: &Path,
    ) -> Result<(LocatedLibrary, Vec<ExportSpec>), LibraryFailure> {
        let opened = self.open_library(entry, root).await?;
        let exports = manifest::exports(&opened.library.manifest, tool, &opened.name)?;
        Ok((opened, exports))
    }

    /// Returns the library at `entry`. Fails if the library has no extension.
    async fn open_extension(
        &self,
        entry: &str,
        root: &Path,
    ) -> Result<LocatedLibrary, LibraryFailure> {
        let opened = self.open_library(entry, root).await?;
        if !opened.library.extends() {
            return Err(LibraryFailure::NoExtension { name: opened.name });
        }
        let mut extended = self.extended.lock().unwrap_or_else(PoisonError::into_inner);
        extended.retain(|library| library.strong_count() > 0);
        let is_known = extended
            .iter()
            .any(|library| std::ptr::eq(library.as_ptr(), Arc::as_ptr(&opened.library)));
        if !is_known {
            extended.push(Arc::downgrade(&opened.library));
        }
        drop(extended);
        Ok(opened)
    }

    /// Returns the staging directory, which the first call creates.
    async fn staging(
        &self,
        opened: &mut OpenedLibraries,
    ) -> Result<Arc<StagingDirectory>, LibraryFailure> {
        if let Some(staging) = &opened.staging {
            return Ok(Arc::clone(staging));
        }
        let root = self.staging_root.clone();
        let directory = run_blocking(move || {
            StagingDirectory::new(&root).map_err(|cause| LibraryFailure::Unwritable { root, cause })
        })
        .await?;
        Ok(Arc::clone(opened.staging.insert(Arc::new(directory))))
    }

    /// Starts the library in a host process if there is one, else in this process.
    async fn start(&self, path: PathBuf, name: String) -> Result<OpenedLibrary, LibraryFailure> {
        let Some(host) = &self.host else {
            return self.start_here(path, name).await;
        };
        let (limits, counters, threads) = (
            self.limits.clone(),
            Arc::clone(&self.counters),
            Arc::clone(&self.threads),
        );
        let hosted = HostedLibrary::new(host.clone(), path, name, limits, counters, threads);
        // Extensions run only in this process.
        let description = LibraryDescription {
            manifest: hosted.first_start().await?,
            extends: false,
        };
        Ok(OpenedLibrary::new(
            description,
            LibraryLocation::Hosted(Box::new(hosted)),
        ))
    }

    /// Starts the library in this process, on its own thread.
    async fn start_here(
        &self,
        path: PathBuf,
        name: String,
    ) -> Result<OpenedLibrary, LibraryFailure> {
        let calls = Arc::new(LibraryCalls::new(&name, &self.limits, &self.counters));
        let start = LibraryThreadStart {
            path,
            name: name.clone(),
            callbacks: Arc::clone(&calls) as _,
            limits: self.limits.clone(),
            counters: Arc::clone(&self.counters),
        };
        let LibraryThread {
            command_sender,
            opened,
            thread,
        } = start.spawn().map_err(|cause| LibraryFailure::NoThread {
            name: name.clone(),
            cause,
        })?;
        self.threads
            .remember(&name, command_sender.downgrade(), thread);
        let description = match tokio::time::timeout(self.limits.open_timeout, opened).await {
            Ok(Ok(opened)) => opened?,
            Ok(Err(_)) => return Err(LibraryFailure::Cancelled { name }),
            Err(_) => {
                return Err(LibraryFailure::Slow {
                    name,
                    time_limit: self.limits.open_timeout,
                });
            }
        };
        let connection = LibraryConnection::new(command_sender, calls);
        Ok(OpenedLibrary::new(
            description,
            LibraryLocation::Here(Arc::new(connection)),
        ))
    }
}

#[async_trait]
impl ToolSource for DynamicLibraries {
    async fn open(
        &self,
        tool: &Resource<Tool>,
        bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError> {
        let ToolEntry::Library(entry) = &tool.spec.entry else {
            return Err(LibraryFailure::NoLibrary.of(&tool.id));
        };
        let opened = self.open_tool(&tool.spec, entry, bundle_root).await;
        let (
            LocatedLibrary {
                library, content, ..
            },
            exports,
        ) = opened.map_err(|failure| failure.of(&tool.id))?;
        let handler = |export: ExportSpec| {
            let (timeout, timeout_field) = tool.spec.timeout_of(&export.name);
            let handler = ExportHandler {
                library: Arc::clone(&library),
                content: content.clone(),
                tool: tool.id.name.clone(),
                export: export.name.clone(),
                config: tool.spec.config.clone(),
                timeout,
                timeout_field,
            };
            (export, Arc::new(handler) as Arc<dyn ToolHandler>)
        };
        Ok(ToolSet {
            exports: exports.into_iter().map(handler).collect(),
            unavailable: None,
        })
    }
}

#[async_trait]
impl ExtensionSource for DynamicLibraries {
    async fn open(
        &self,
        extension: &Resource<Extension>,
        config: JsonObject,
        bundle_root: &Path,
    ) -> Result<Arc<dyn ExtensionCode>, EntryOpenError> {
        let ExtensionEntry::Library(entry) = &extension.spec.entry else {
            return Err(LibraryFailure::NoLibrary.of(&extension.id));
        };
        let opened = self.open_extension(entry, bundle_root).await;
        let LocatedLibrary {
            library,
            content,
            file,
            ..
        } = opened.map_err(|failure| failure.of(&extension.id))?;
        Ok(extension_protocol::extension(LibraryExtension {
            library,
            content,
            name: extension.id.name.clone(),
            project: std::path::absolute(bundle_root).unwrap_or_else(|_| bundle_root.to_owned()),
            config,
            limit: extension.spec.timeout,
            file,
        }))
    }
}

struct LocatedLibrary {
    library: Arc<OpenedLibrary>,
    /// Name for messages.
    name: String,
    /// Hash of the file.
    content: String,
    file: PathBuf,
}

/// Checks the library file and copies it to the staging directory. Returns the path of the copy.
async fn stage(
    staging: Arc<StagingDirectory>,
    image: LibraryImage,
) -> Result<PathBuf, LibraryFailure> {
    run_blocking(move || {
        image::check(&image.name(), &image.source)?;
        // Copying fails if the file has changed since the check.
        staging.copy_verified(&image)
    })
    .await
}

/// Runs file operations outside of the async threads.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LibraryFailure> + Send + 'static,
) -> Result<T, LibraryFailure> {
    tokio::task::spawn_blocking(work).await?
}
