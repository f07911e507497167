// One mistake per launch, chosen by `fault`; each must be reported and none may hang or crash.

enum Fault {
    DIVERGENT_BALLOT,
    DIFFERENT_COLLECTIVES,
    DIFFERENT_MASKS,
    MASK_WITHOUT_SELF,
    EXITED_LANE_IN_MASK,
    EXIT_WHILE_AWAITED,
    BAD_WIDTH,
    BARRIER_NOT_REACHED,
    DIFFERENT_BARRIERS,
    SHARED_OVERRUN,
    DEEP_RECURSION,
    ENDLESS_SPIN,
    TRAP,
    FALSE_ASSUMPTION,
    MISALIGNED_ATOMIC,
};

struct FaultsParams {
    int fault;
    unsigned* words;
};

__device__ __noinline__ unsigned recurse(unsigned depth, volatile unsigned* words) {
    volatile unsigned frame[64];
    frame[depth % 64] = words[0];
    if (depth == 0) return frame[0];
    return recurse(depth - 1, words) + frame[depth % 64];
}

extern "C" __global__ void __launch_bounds__(64) faults(const __grid_constant__ FaultsParams p) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    const unsigned all = 0xffffffffu;
    const unsigned lane = threadIdx.x % 32;
    switch (p.fault) {
        case DIVERGENT_BALLOT: // the other lanes wait elsewhere
            if (lane < 7) __ballot_sync(all, 1);
            __syncthreads();
            break;
        case DIFFERENT_COLLECTIVES:
            if (lane < 7) __ballot_sync(all, 1);
            else __syncwarp(all);
            break;
        case DIFFERENT_MASKS:
            __syncwarp(lane < 7 ? 0xffu : all);
            break;
        case MASK_WITHOUT_SELF:
            __shfl_sync(0x0000ffffu, lane, 0);
            break;
        case EXITED_LANE_IN_MASK:
            if (threadIdx.x < 40) return;
            for (int i = 0; i < 1000; ++i) __nanosleep(1);
            __any_sync(all, 1);
            break;
        case EXIT_WHILE_AWAITED:
            if (lane == 3) {
                for (int i = 0; i < 1000; ++i) __nanosleep(1);
                return;
            }
            __syncwarp(all);
            break;
        case BAD_WIDTH:
            __shfl_sync(all, lane, 0, 12);
            break;
        case BARRIER_NOT_REACHED:
            if (threadIdx.x == 5) __any_sync(1u << 5 | 1u << 6, 1);
            __syncthreads();
            break;
        case DIFFERENT_BARRIERS:
            if (threadIdx.x == 63) __syncthreads_or(1);
            else __syncthreads();
            break;
        case SHARED_OVERRUN: // 100 bytes are given
            reinterpret_cast<unsigned*>(shared_memory)[threadIdx.x == 9 ? 30 : threadIdx.x % 25] = 0;
            break;
        case DEEP_RECURSION:
            if (threadIdx.x == 11) p.words[1] = recurse(p.words[0], p.words);
            break;
        case ENDLESS_SPIN:
            while (threadIdx.x == 1 && atomicAdd(&p.words[1], 0u) == 0) {}
            break;
        case TRAP:
            if (threadIdx.x == 33) __trap();
            break;
        case FALSE_ASSUMPTION:
            __builtin_assume(threadIdx.x < 63);
            break;
        case MISALIGNED_ATOMIC:
            atomicAdd(reinterpret_cast<unsigned long long*>(p.words + 1), 1ull);
            break;
    }
}
