//! OpenAI's chat completions, which most providers speak.

mod request;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use request::ChatFormat;
