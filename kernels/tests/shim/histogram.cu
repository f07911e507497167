// Counts bytes: each block in dynamic shared memory by shared atomics, then into the global counters.
// Dynamic shared memory: num_bins unsigned counters.

struct HistogramParams {
    const unsigned char* values;
    unsigned num_rows;
    unsigned num_bins;
    unsigned* counts;
};

extern "C" __global__ void __launch_bounds__(64) histogram(const __grid_constant__ HistogramParams p) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    unsigned* const bins = reinterpret_cast<unsigned*>(shared_memory);
    for (unsigned bin = threadIdx.x; bin < p.num_bins; bin += blockDim.x) bins[bin] = 0;
    __syncthreads();
    for (unsigned row = blockIdx.x * blockDim.x + threadIdx.x; row < p.num_rows; row += gridDim.x * blockDim.x)
        atomicAdd(&bins[p.values[row] % p.num_bins], 1u);
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < p.num_bins; bin += blockDim.x)
        if (bins[bin] != 0) atomicAdd(&p.counts[bin], bins[bin]);
}
