//! Tests of the whole product, and what they share.
//!
//! [`chaos`] kills a running swarm again and again and checks that nothing was lost or repeated. It knows the product
//! only through the facade and the files on disk. [`reload`] measures how fast a watched swarm follows its files.

pub mod chaos;
pub mod reload;
