// Threads from `num_threads` on leave at once; the others still meet at barriers of every kind.
// Thread 0 writes what each gave: or, and, count of odd thread numbers; then or, and, count of true.

struct ExitsParams {
    unsigned num_threads;
    int* results;
};

extern "C" __global__ void __launch_bounds__(64) exits(const __grid_constant__ ExitsParams p) {
    if (threadIdx.x >= p.num_threads) return;
    __shared__ int last;
    __syncthreads();
    if (threadIdx.x == p.num_threads - 1) last = 7;
    __syncthreads();
    const int odd = threadIdx.x & 1;
    const int results[6] = {__syncthreads_or(odd), __syncthreads_and(odd), __syncthreads_count(odd),
                            __syncthreads_or(1),   __syncthreads_and(1),   __syncthreads_count(1)};
    if (threadIdx.x != 0) return;
    for (int i = 0; i < 6; ++i) p.results[i] = results[i];
    p.results[6] = last;
}
