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
        const uint2 narrow = __ldcs((const uint2*)(k0.data + (u64)at * 2));
        const uint2 plain = __ldcs((const uint2*)(k1.data + (u64)at * 4));
        const u32 raws[4] = {narrow.x & 0xffff, narrow.x >> 16, narrow.y & 0xffff, narrow.y >> 16};
        i32 keys[4];
        double values[4];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            keys[r] = (i32)(raws[r] * (u32)k0.factor + (u32)k0.base);
            values[r] = double_of_bits(joined(plain.x, plain.y + r));
        }
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
