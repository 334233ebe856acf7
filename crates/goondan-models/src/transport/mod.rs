//! HTTP and the division of response bodies into events.

mod amazon_events;
mod body;
mod events;
mod http;
mod json_lines;
pub(crate) mod limits;
mod server_sent_events;

pub(crate) use body::SharedBody;
pub(crate) use events::{EventReader, FramingError};
pub(crate) use http::{HttpClients, ProbeAnswer, error_chain};
