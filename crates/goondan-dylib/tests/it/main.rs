//! Tests libraries through the real loader, with a recording context.

mod agents;
mod calls;
mod documentation;
mod hosted;
mod opening;
mod reload;
mod spikes;
mod support;
