//! State of built-in tools that outlives a call, such as background processes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use goondan_core::ports::tool::ToolSource;
use goondan_spec::Environment;

use crate::background_processes::BackgroundProcesses;
use crate::custom_tools::library::LoadedLibraries;
use crate::sandbox::SandboxHelper;
use crate::squad::RoutedSessions;

/// State that the tools of one [`BuiltinTools`](crate::BuiltinTools) keep between calls and across
/// reloads.
#[derive(Default)]
pub(crate) struct BuiltinToolState {
    pub(crate) processes: Arc<BackgroundProcesses>,
    /// Sessions that `squad__route` has opened.
    pub(crate) squad_sessions: Arc<RoutedSessions>,
    /// Restricts programs, and ends leftover processes.
    pub(crate) helper: Option<Arc<SandboxHelper>>,
    pub(crate) environment: Mutex<Environment>,
    /// Directory for reproducible data.
    pub(crate) cache_dir: Option<PathBuf>,
    /// Loaded libraries of custom tools.
    pub(crate) loaded: Arc<LoadedLibraries>,
    /// Opens dynamic libraries.
    pub(crate) libraries: Option<Arc<dyn ToolSource>>,
}
