//! Ownership of objects that outlive a call.

use goondan_core::ids::InstanceId;
use goondan_core::ports::tool::ToolContext;

/// The agent instance that owns an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InstanceOwner {
    agent: String,
    instance_key: String,
}

impl InstanceOwner {
    /// Returns the owner for an instance.
    pub(crate) fn of_instance(id: &InstanceId) -> InstanceOwner {
        InstanceOwner {
            agent: id.agent.clone(),
            instance_key: id.instance_key.clone(),
        }
    }

    /// Returns the calling instance.
    pub(crate) fn from_context(ctx: &ToolContext) -> InstanceOwner {
        InstanceOwner {
            agent: ctx.agent_name.clone(),
            instance_key: ctx.instance_key.clone(),
        }
    }
}
