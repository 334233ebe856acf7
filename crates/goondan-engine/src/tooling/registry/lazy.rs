//! Tools whose definition is made when it is first needed.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::OnceCell;

use super::{RegisteredTool, ToolName};
use goondan_core::ports::tool::ToolError;

type Definition = Result<Arc<RegisteredTool>, ToolError>;

/// A tool that takes work to describe: a description in a file, parameters that somebody else says.
pub struct LazyTool {
    name: ToolName,
    make: Box<dyn Fn() -> BoxFuture<'static, Definition> + Send + Sync>,
    made: OnceCell<Arc<RegisteredTool>>,
}

impl LazyTool {
    /// The tool `name`, which `make` defines. It is asked once, and again only where it failed.
    pub fn new<F>(name: ToolName, make: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Definition> + Send + 'static,
    {
        LazyTool {
            name,
            make: Box::new(move || make().boxed()),
            made: OnceCell::new(),
        }
    }

    /// What the model calls it.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// The tool, if its definition is there.
    pub fn defined(&self) -> Option<&Arc<RegisteredTool>> {
        self.made.get()
    }

    /// The tool. Who asks while the definition is being made waits for that.
    ///
    /// # Errors
    /// What `make` says, or that it made a tool of another name.
    pub async fn define(&self) -> Result<&Arc<RegisteredTool>, ToolError> {
        self.made
            .get_or_try_init(|| async {
                let tool = (self.make)().await?;
                if tool.name == self.name {
                    return Ok(tool);
                }
                let message = format!(
                    "the definition of `{}` calls itself `{}`",
                    self.name, tool.name
                );
                Err(ToolError::new(message))
            })
            .await
    }
}
