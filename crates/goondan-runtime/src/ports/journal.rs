//! Records the side effects of a turn, so that a resumed turn does not repeat them.
