//! Tests of libraries with the real loader and a mock engine that records calls.

mod abi_experiments;
mod agents;
mod calls;
mod documentation;
mod hosted;
mod opening;
mod reload;
mod support;
