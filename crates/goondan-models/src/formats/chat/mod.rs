//! OpenAI's chat completions format, which most providers accept.

mod request;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use request::ChatFormat;
