// Column chunks, decoded in registers.
//
// A value is base + factor * raw, where raw is unsigned and 0, 1, 2, 4 or 8 bytes wide; width 0 is a
// constant. Decimals that need it are plain at 16 bytes. A thread takes R consecutive rows and reads
// them with the widest loads that their bytes allow; R divides 32, `at` is a multiple of R, and
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

// BYTES consecutive bytes as words.
template <int BYTES> struct Packet { u32 word[BYTES / 4]; };
template <> struct Packet<1> { u32 word[1]; };
template <> struct Packet<2> { u32 word[1]; };

// The raw value of row `i` of a packet of W-byte values.
template <int W, int BYTES> __device__ __forceinline__ u64 raw_value(const Packet<BYTES>& packet, int i) {
    if (W == 1) return (packet.word[i / 4] >> (8 * (i % 4))) & 0xff;
    if (W == 2) return (packet.word[i / 2] >> (16 * (i % 2))) & 0xffff;
    if (W == 4) return packet.word[i];
    return (u64)packet.word[2 * i] | ((u64)packet.word[2 * i + 1] << 32);
}

// Fetches the first BYTES bytes of a packet that may be larger. One function for all sizes: what is
// inlined in fewer steps is compiled in less time, and to the same instructions.
template <int BYTES, int ALL> __device__ __forceinline__ void fetch_part(Packet<ALL>& to, const u8* from) {
    if constexpr (BYTES == 1) {
        to.word[0] = __ldcs(from);
    } else if constexpr (BYTES == 2) {
        to.word[0] = __ldcs((const u16*)from);
    } else if constexpr (BYTES == 4) {
        to.word[0] = __ldcs((const u32*)from);
    } else if constexpr (BYTES == 8) {
        const uint2 part = __ldcs((const uint2*)from);
        to.word[0] = part.x;
        to.word[1] = part.y;
    } else {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++) {
            const uint4 part = __ldcs((const uint4*)from + i);
            to.word[4 * i] = part.x;
            to.word[4 * i + 1] = part.y;
            to.word[4 * i + 2] = part.z;
            to.word[4 * i + 3] = part.w;
        }
    }
}

// The values of R rows of a column that has 8 bytes for each in all of its chunks. They stay whole: words
// cut in halves and joined again take longer to compile, and leave moves of registers behind.
template <int R> struct Longs { u64 word[R]; };

template <int W, int R> __device__ __forceinline__ u64 raw_value(const Longs<R>& packet, int i) {
    static_assert(W == 8, "values of 8 bytes");
    return packet.word[i];
}

template <int R> __device__ __forceinline__ void fetch_longs(Longs<R>& to, const u8* from) {
    if constexpr (R == 1) {
        to.word[0] = __ldcs((const u64*)from);
    } else {
#pragma unroll
        for (int i = 0; i < R / 2; i++) {
            const ulonglong2 part = __ldcs((const ulonglong2*)from + i);
            to.word[2 * i] = part.x;
            to.word[2 * i + 1] = part.y;
        }
    }
}

// Decodes a packet of W-byte values.
template <int W, int R, class T, bool SCALED, class P>
__device__ __forceinline__ void decode(const Column& column, const P& packet, T (&values)[R]) {
#pragma unroll
    for (int r = 0; r < R; r++) {
        u64 raw = raw_value<W>(packet, r);
        if (sizeof(T) == 4) {
            u32 value = (u32)raw;
            if (SCALED) value *= (u32)column.factor;
            values[r] = (T)(i32)(value + (u32)column.base);
        } else {
            if (SCALED) raw *= (u64)column.factor;
            values[r] = (T)(i64)(raw + (u64)column.base);
        }
    }
}

template <int R, class T> __device__ __forceinline__ void decode_constant(const Column& column, T (&values)[R]) {
#pragma unroll
    for (int r = 0; r < R; r++) values[r] = (T)column.base;
}

// Plain unsigned 64-bit integers, some of them beyond the signed ones.
template <int R, class P>
__device__ __forceinline__ void decode_unsigned(const Column& column, const P& packet, i128 (&values)[R]) {
    i64 words[R];
    decode<8, R, i64, false>(column, packet, words);
#pragma unroll
    for (int r = 0; r < R; r++) values[r] = (i128)(u64)words[r];
}

template <int R, int BYTES>
__device__ __forceinline__ void decode_wide(const Packet<BYTES>& packet, i128 (&values)[R]) {
#pragma unroll
    for (int r = 0; r < R; r++) {
        u64 low = raw_value<8>(packet, 2 * r);
        u64 high = raw_value<8>(packet, 2 * r + 1);
        values[r] = (i128)(((u128)high << 64) | low);
    }
}

template <int R, class P>
__device__ __forceinline__ void decode_double(const P& packet, double (&values)[R]) {
#pragma unroll
    for (int r = 0; r < R; r++) values[r] = __longlong_as_double((i64)raw_value<8>(packet, r));
}

template <int R, int BYTES>
__device__ __forceinline__ void decode_float(const Packet<BYTES>& packet, float (&values)[R]) {
#pragma unroll
    for (int r = 0; r < R; r++) values[r] = __int_as_float((i32)raw_value<4>(packet, r));
}

// The validity of 32 rows, of which `at` is one.
__device__ __forceinline__ u32 validity_word(const Column& column, u32 at) {
    return column.validity ? __ldcs(column.validity + (at >> 5)) : 0xffffffffu;
}
