//! The decoded resources of all kinds.

use std::sync::Arc;

use crate::kinds::{Agent, Connection, Connector, Extension, Model, Package, Swarm, Tool};
use crate::resource::{Resource, Resources};

#[derive(Debug, Clone, Default)]
pub(crate) struct DecodedResources {
    pub(crate) package: Option<Arc<Resource<Package>>>,
    pub(crate) models: Resources<Model>,
    pub(crate) agents: Resources<Agent>,
    pub(crate) swarms: Resources<Swarm>,
    pub(crate) tools: Resources<Tool>,
    pub(crate) extensions: Resources<Extension>,
    pub(crate) connectors: Resources<Connector>,
    pub(crate) connections: Resources<Connection>,
}
