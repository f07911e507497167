// Inclusive prefix sum in one pass (decoupled look-back, Merrill and Garland 2016, with full waits): a block takes the
// next tile by a ticket, waits until the tile before it has published its running sum, adds its own and publishes.
// Because tickets are handed out in the order in which blocks run, the awaited block is always resident or done.
//
// `ordered_by_index` uses blockIdx instead of the ticket, which hangs when blocks do not start in order.

struct LookbackParams {
    const unsigned* values;
    unsigned num_rows;
    unsigned* sums;
    unsigned* ticket;
    unsigned* published; // per tile: 1 once running_sums is valid
    unsigned* running_sums;
    int ordered_by_index;
};

extern "C" __global__ void __launch_bounds__(64) lookback(const __grid_constant__ LookbackParams p) {
    __shared__ unsigned shared_tile, shared_before, shared_values[64];
    if (threadIdx.x == 0) shared_tile = p.ordered_by_index ? blockIdx.x : atomicAdd(p.ticket, 1u);
    __syncthreads();
    const unsigned tile = shared_tile;
    const unsigned row = tile * blockDim.x + threadIdx.x;
    shared_values[threadIdx.x] = row < p.num_rows ? p.values[row] : 0;
    __syncthreads();
    unsigned sum = 0;
    for (unsigned thread = 0; thread <= threadIdx.x; ++thread) sum += shared_values[thread];
    if (threadIdx.x == blockDim.x - 1) {
        unsigned before = 0;
        if (tile > 0) {
            volatile unsigned* const flag = &p.published[tile - 1];
            while (*flag == 0) __nanosleep(20);
            __threadfence();
            before = __ldcg(&p.running_sums[tile - 1]);
        }
        p.running_sums[tile] = before + sum;
        __threadfence();
        atomicExch(&p.published[tile], 1u);
        shared_before = before;
    }
    __syncthreads();
    if (row < p.num_rows) p.sums[row] = shared_before + sum;
}
