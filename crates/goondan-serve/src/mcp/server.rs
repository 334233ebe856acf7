//! Handler of MCP requests, which offers each agent of the swarm as a tool.

use std::borrow::Cow;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use super::{call, tools};
use crate::service::Service;

/// The agents of a swarm, as tools of an MCP server.
pub(crate) struct AgentsAsTools(pub(super) Service);

impl ServerHandler for AgentsAsTools {
    fn get_info(&self) -> ServerConfig {
        let swarm = self.0.swarm();
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let instructions = format!(
            "Each tool calls an agent of the swarm {}. Agents use their own tools and may take \
            minutes.",
            swarm.name()
        );
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("gdn", self.0.inner.version.clone()))
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::for_swarm(
            self.0.swarm(),
        )))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::for_swarm(self.0.swarm())
            .into_iter()
            .find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(agent) = tools::agent(self.0.swarm(), &request.name) else {
            let unknown: Cow<'static, str> = format!("there is no tool `{}`", request.name).into();
            return Err(ErrorData::invalid_params(unknown, None));
        };
        call::answer(&self.0, agent, request, &context).await
    }
}
