// Column chunks, decoded in registers.
//
// A value is base + factor * raw, where raw is unsigned and 0, 1, 2, 4 or 8 bytes wide; width 0 is a
// constant. Decimals that need it are plain at 16 bytes. A thread takes ROWS consecutive rows and reads
// them with the widest loads that their bytes allow; ROWS divides 32, `at` is a multiple of it, and
// chunks are padded to whole groups of 32 rows, so a load never leaves its chunk.
//
// Validity is Arrow's: bit `row % 32` of word `row / 32`, set for a value; no pointer, no NULL.

struct Column {
    const u8* data;
    const u32* validity;
    i64 base;
    i64 factor;
    u64 width;
};

// A value of 16 bytes.
__device__ __forceinline__ i128 wide_value(const uint4& raw) {
    return (i128)(((u128)joined(raw.z, raw.w) << 64) | joined(raw.x, raw.y));
}

// The validity of 32 rows, of which `at` is one.
__device__ __forceinline__ u32 validity_word(const Column& column, u32 at) {
    return column.validity ? __ldcs(column.validity + (at >> 5)) : 0xffffffffu;
}
