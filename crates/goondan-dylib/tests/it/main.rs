//! Libraries through the real loader, with a context that records.

mod agents;
mod calls;
mod documentation;
mod hosted;
mod opening;
mod reload;
mod spikes;
mod support;
