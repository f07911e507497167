//! What bounds the sorting of rows by partition, and what a program's launcher has to know of it.

/// What bounds the sorting of rows by partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RadixLimits {
    /// Fewer rows are added to the table as they come.
    pub rows_min: u64,
    /// A smaller table in global memory that is addressed by its keys is added to as rows come. On an
    /// H200 1e5 dense groups take 6.1 ms either way, and 4.4 instead of 11 with keys by Zipf's law.
    pub dense_bytes_min: u64,
    /// Bits of a partition's number, at most 9; there are no more partitions than threads of a block.
    pub way_bits: u32,
    /// Shared memory for a block's own table, in bytes.
    pub table_bytes: u64,
    /// Shared memory of a block that sorts records, in bytes.
    pub block_bytes: u64,
    /// Memory that all records may take, in bytes.
    pub pool_bytes: u64,
    /// Keys that a block adds up in shared memory instead of making records of their rows, at most, a
    /// power of two; a quarter of `block_bytes` bounds them too. On an H200 1e7 dense groups with keys by
    /// Zipf's law take 5.3 ms with 2,048 keys, 6.6 with 1,024 and 16.4 with 512, and as many sparse ones
    /// with even keys 15.4, 15.3 and 14.9.
    pub hot_keys: u32,
}

impl Default for RadixLimits {
    fn default() -> Self {
        Self {
            rows_min: 1 << 22,
            dense_bytes_min: 512 << 10,
            way_bits: 9,
            table_bytes: 190 << 10,
            block_bytes: 224 << 10,
            pool_bytes: 24 << 30,
            hot_keys: 2048,
        }
    }
}

/// What the launcher has to know of a program that sorts rows by partition.
#[derive(Clone, Debug, PartialEq)]
pub struct RadixPlan {
    /// What bounds it.
    pub limits: RadixLimits,
    /// Bits of a partition's number.
    pub way_bits: u32,
    /// Bytes of a record.
    pub record_bytes: u64,
    /// Bytes of a cell of a block's own table, with its key.
    pub cell_bytes: u64,
    /// Bytes of a cell of one that is addressed by keys.
    pub dense_cell_bytes: u64,
    /// Records that a block of `fold` spills, at most.
    pub spilled_max: u64,
    /// Shared memory that a block of `repartition` needs, in bytes.
    pub repartition_bytes: u32,
}
