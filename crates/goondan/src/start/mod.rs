//! Start of a swarm: project, checks, environment, secrets and adapters in one handle.

pub mod builder;
pub mod checks;
pub(crate) mod conversations;
pub(crate) mod environment;
pub mod model_probe;
pub(crate) mod package_copies;
pub mod project;
pub(crate) mod secrets;
pub(crate) mod start_error;
pub mod swarm;
pub mod telemetry;
pub mod usage;
