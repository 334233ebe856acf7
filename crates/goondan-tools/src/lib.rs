//! The built-in tools of @goondan/base.
