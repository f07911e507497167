// Reverses a block's numbers through shared memory, with or without the barrier that this needs.

struct MissingBarrierParams {
    unsigned* output;
    int with_barrier;
};

extern "C" __global__ void __launch_bounds__(64) missing_barrier(const __grid_constant__ MissingBarrierParams p) {
    __shared__ unsigned numbers[64];
    numbers[threadIdx.x] = threadIdx.x;
    if (p.with_barrier) __syncthreads();
    p.output[blockIdx.x * blockDim.x + threadIdx.x] = numbers[blockDim.x - 1 - threadIdx.x];
}
