// Fills a column with values that the host can compute again from the row's number.

typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

struct Launch {
    u8* values;
    u64 num_rows;
    u64 first_row;
    u64 seed;
    u64 kind;
    u64 width;
    u64 count;
    u64 low;
    const u32* quantiles;
};

__device__ __forceinline__ u64 mix(u64 key) {
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdull;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53ull;
    return key ^ (key >> 33);
}

extern "C" __global__ void fill(const __grid_constant__ Launch p) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < p.num_rows; i += gridDim.x * (u64)blockDim.x) {
        u64 h = mix((p.first_row + i) * 0x9e3779b97f4a7c15ull + p.seed);
        u64 raw = 0;
        u64 kind = p.kind & 15;
        if (kind == 0) raw = h % p.count;
        if (kind == 1) raw = (u64)__double_as_longlong((double)(p.low + h % p.count) / 100.0);
        if (kind == 2) raw = h;
        if (kind == 3) raw = (u64)__double_as_longlong((double)(h >> 11) * 1.1102230246251565e-16);
        if (kind == 4) {
            u64 at = h >> 48;
            u64 from = p.quantiles[at], to = p.quantiles[at + 1];
            raw = from + (h & 0xffffffffull) % (to - from + 1);
        }
        if (kind == 5) raw = (h & 1) ? 0 : (h >> 1) % p.count;
        if (kind == 6) {
            ((u64*)p.values)[2 * i] = h << 20;
            ((u64*)p.values)[2 * i + 1] = h >> 44;
            continue;
        }
        if (p.kind & 16) raw = mix(raw);
        if (kind != 1 && kind != 3) raw += p.low;
        if (p.width == 1) p.values[i] = (u8)raw;
        if (p.width == 2) ((u16*)p.values)[i] = (u16)raw;
        if (p.width == 4) ((u32*)p.values)[i] = (u32)raw;
        if (p.width == 8) ((u64*)p.values)[i] = raw;
    }
}

// Writes the validity of rows: one of `count` is NULL.
extern "C" __global__ void mark_nulls(const __grid_constant__ Launch p) {
    for (u64 word = blockIdx.x * (u64)blockDim.x + threadIdx.x; 32 * word < p.num_rows; word += gridDim.x * (u64)blockDim.x) {
        u32 valid = 0;
        for (u64 bit = 0; bit < 32; bit++) {
            u64 h = mix((p.first_row + 32 * word + bit) * 0x9e3779b97f4a7c15ull + ~p.seed);
            if (h % p.count != 0) valid |= 1u << bit;
        }
        ((u32*)p.values)[word] = valid;
    }
}
