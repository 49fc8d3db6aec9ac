//! All decisions. No tokio, no files, no clock, no randomness: `now` is a parameter.
