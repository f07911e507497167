//! Row programs on the host: blocks of encoded columns, one loop for each operation and block.
//!
//! The way of a region's rows: a source gives groups of rows as [`block`]s; a [`HostProgram`] is compiled
//! once for a pipeline, and a [`HostRun`] of it folds blocks, one thread each. A run never keeps a part of a
//! block: what it declines ([`Declined`]) it has not changed anything for, and the caller goes on from that
//! block with DataFusion's own operators.
//!
//! Nothing here knows files, plans or scheduling. `unsafe` is in `simd` alone.

pub mod block;

pub use block::{BLOCK, Chunk, Entries, Raw, Values};
