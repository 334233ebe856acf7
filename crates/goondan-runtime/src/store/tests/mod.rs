//! The stores of this crate in the suite, and under faults.

mod checks;
mod conformity;
mod crashes;
mod damage;
mod faults;
mod retirement;
mod swarm;
