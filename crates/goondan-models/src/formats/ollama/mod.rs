//! Ollama's own chat.

mod request;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use request::OllamaFormat;
