//! Tests of decoding and merging.
