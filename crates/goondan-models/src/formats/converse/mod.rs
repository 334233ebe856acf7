//! Converse, the format of all models on Amazon Bedrock.

mod blocks;
mod model;
mod request;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use request::ConverseFormat;
