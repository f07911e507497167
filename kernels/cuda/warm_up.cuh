// Never launched. Compiling it has the compiler touch what it needs for any kernel: columns are
// decoded, rows filtered, and sums kept for each thread, for a block and for all.

extern "C" __global__ void __launch_bounds__(256, 2) warm_up(
    const Column* columns, u64* state, u32* flags, u32 rows, double limit) {
    __shared__ u32 low[64], high[64];
    if (threadIdx.x < 64) low[threadIdx.x] = high[threadIdx.x] = 0;
    __syncthreads();
    const Column k0 = columns[0], k1 = columns[1];
    u64 sum = 0;
#pragma unroll 1
    for (u32 at = (blockIdx.x * 256 + threadIdx.x) * 4; at < rows; at += gridDim.x * 1024) {
        Packet<8> narrow;
        Longs<4> plain;
        fetch_part<8>(narrow, k0.data + (u64)at * 2);
        fetch_longs(plain, k1.data + (u64)at * 8);
        i32 keys[4];
        double values[4];
        decode<2, 4, i32, true>(k0, narrow, keys);
        decode_double<4>(plain, values);
        const u32 valid = validity_word(k1, at);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const bool selected = at + r < rows && ((valid >> ((at + r) & 31)) & 1) && values[r] < limit;
            if (!selected) continue;
            sum += (u64)(i64)keys[r];
            shared_add(&low[keys[r] & 63], &high[keys[r] & 63], (u64)__double2ll_rz(values[r] * 100.0));
        }
    }
    const u64 total = warp_sum(sum);
    if ((threadIdx.x & 31) == 0 && total != 0) add_word(state, total);
    __syncthreads();
    if (threadIdx.x < 64) add_split(state + 1 + 2 * threadIdx.x, shared_word(&low[threadIdx.x], &high[threadIdx.x]));
    if (mix(total) == 0) raise(flags, OVERFLOW);
}
