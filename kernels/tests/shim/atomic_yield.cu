// Atomics and nothing else, to measure what one costs.

struct AtomicYieldParams {
    unsigned rounds;
    unsigned* counter;
};

extern "C" __global__ void __launch_bounds__(64) atomic_yield(const __grid_constant__ AtomicYieldParams p) {
    for (unsigned round = 0; round < p.rounds; ++round) atomicAdd(p.counter, 1u);
}
