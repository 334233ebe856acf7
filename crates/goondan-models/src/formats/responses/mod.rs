//! OpenAI's responses format, which gateways and local servers imitate.
//!
//! Nothing is stored at the provider (`store: false`), so each request contains the whole conversation. Reasoning items
//! return encrypted, in their place. Other items return without their ids, because a server looks up ids among the
//! stored items and refuses a reference to an item that it does not have.

mod items;
mod request;
#[cfg(test)]
mod request_tests;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use request::ResponsesFormat;
