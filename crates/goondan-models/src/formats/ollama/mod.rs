//! Wire format of Ollama's own chat API.

mod request;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use request::OllamaFormat;
