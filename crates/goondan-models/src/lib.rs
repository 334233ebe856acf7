//! Model clients: real providers, scripted replies, recorded traffic.
