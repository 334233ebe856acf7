//! Where conversations and accepted events are kept.
