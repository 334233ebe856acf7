//! Tools whose definition is created on first use.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::OnceCell;

use super::{RegisteredTool, ToolName};
use goondan_core::ports::tool::HandlerError;

type LazyDefinition = Result<Arc<RegisteredTool>, HandlerError>;

/// A tool whose definition requires work, such as reading a file or asking a server for its
/// parameters.
pub struct LazyTool {
    name: ToolName,
    make: Box<dyn Fn() -> BoxFuture<'static, LazyDefinition> + Send + Sync>,
    made: OnceCell<Arc<RegisteredTool>>,
}

impl LazyTool {
    /// Creates the tool `name`. `make` runs once, and again only after a failure.
    pub fn new<F>(name: ToolName, make: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = LazyDefinition> + Send + 'static,
    {
        LazyTool {
            name,
            make: Box::new(move || make().boxed()),
            made: OnceCell::new(),
        }
    }

    /// Returns the name that the model uses.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// Returns the tool if its definition exists.
    pub fn defined(&self) -> Option<&Arc<RegisteredTool>> {
        self.made.get()
    }

    /// Returns the tool and creates its definition first if necessary. Concurrent callers wait for
    /// the same definition.
    ///
    /// # Errors
    /// `make` failed, or it created a tool with another name.
    pub async fn define(&self) -> Result<&Arc<RegisteredTool>, HandlerError> {
        self.made
            .get_or_try_init(|| async {
                let tool = (self.make)().await?;
                if tool.name == self.name {
                    return Ok(tool);
                }
                let message = format!(
                    "the definition of `{}` has the name `{}`",
                    self.name, tool.name
                );
                Err(HandlerError::new(message))
            })
            .await
    }
}
