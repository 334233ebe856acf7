//! Anthropic's messages, which MiniMax and Vertex AI also understand.

mod blocks;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod usage;

pub(crate) use request::AnthropicFormat;
