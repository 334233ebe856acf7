//! The stores of this crate in the suite, and under faults.

mod carried;
mod checks;
mod conformity;
mod cost;
mod crashes;
mod damage;
mod faults;
mod retirement;
mod swarm;
