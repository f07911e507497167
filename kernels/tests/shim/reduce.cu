// Sums 64-bit integers over the grid: lanes by shuffles, warps through static shared memory, blocks by an atomic.
// Thread t of the grid takes rows t, t + threads, ... One block adds one number to `total`.

struct ReduceParams {
    const long long* values;
    unsigned long long num_rows;
    unsigned long long* total;
};

__device__ __forceinline__ long long warp_sum(long long value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

extern "C" __global__ void __launch_bounds__(64) reduce(const __grid_constant__ ReduceParams p) {
    __shared__ long long warp_sums[32];
    long long sum = 0;
    const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
    for (unsigned long long row = blockIdx.x * blockDim.x + threadIdx.x; row < p.num_rows; row += stride)
        sum += __ldg(&p.values[row]);
    sum = warp_sum(sum);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) warp_sums[warp] = sum;
    __syncthreads();
    if (warp != 0) return;
    sum = warp_sum(lane < blockDim.x / 32 ? warp_sums[lane] : 0);
    if (lane == 0) atomicAdd(p.total, static_cast<unsigned long long>(sum));
}
