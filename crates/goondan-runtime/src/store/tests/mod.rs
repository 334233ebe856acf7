//! The stores of this crate in the suite, and under faults.

mod conformity;
