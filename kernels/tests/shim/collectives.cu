// Every warp collective, checked lane by lane; a bit of `failed` per check that found something wrong in any lane.

struct CollectivesParams {
    unsigned* failed;
};

template <class T>
__device__ bool shuffles_are_right() {
    const unsigned all = 0xffffffffu;
    const unsigned lane = threadIdx.x % 32;
    const T own = static_cast<T>(lane * 3 + 1);
    bool right = __shfl_sync(all, own, 5) == static_cast<T>(16);
    right &= __shfl_sync(all, own, 3, 8) == static_cast<T>(((lane & ~7u) + 3) * 3 + 1);
    right &= __shfl_sync(all, own, static_cast<int>(lane + 33)) == static_cast<T>(((lane + 1) % 32) * 3 + 1);
    right &= __shfl_up_sync(all, own, 4) == static_cast<T>((lane < 4 ? lane : lane - 4) * 3 + 1);
    right &= __shfl_up_sync(all, own, 1, 16) == static_cast<T>((lane % 16 == 0 ? lane : lane - 1) * 3 + 1);
    right &= __shfl_down_sync(all, own, 4) == static_cast<T>((lane + 4 > 31 ? lane : lane + 4) * 3 + 1);
    right &= __shfl_down_sync(all, own, 2, 4) == static_cast<T>((lane % 4 > 1 ? lane : lane + 2) * 3 + 1);
    right &= __shfl_xor_sync(all, own, 9) == static_cast<T>((lane ^ 9) * 3 + 1);
    right &= __shfl_xor_sync(all, own, 9, 8) == static_cast<T>(((lane ^ 9) / 8 > lane / 8 ? lane : lane ^ 9) * 3 + 1);
    return right;
}

extern "C" __global__ void __launch_bounds__(64) collectives(const __grid_constant__ CollectivesParams p) {
    const unsigned all = 0xffffffffu;
    const unsigned lane = threadIdx.x % 32;
    unsigned failed = 0;
    int check = 0;
    const auto expect = [&](bool right) { failed |= static_cast<unsigned>(!right) << check++; };

    expect(shuffles_are_right<int>());
    expect(shuffles_are_right<unsigned>());
    expect(shuffles_are_right<long long>());
    expect(shuffles_are_right<unsigned long long>());
    expect(shuffles_are_right<float>());
    expect(shuffles_are_right<double>());
    expect(__shfl_sync(all, 1ull << 40 | lane, 31) == (1ull << 40 | 31));
    expect(__ballot_sync(all, lane % 3 == 0) == 0x49249249u);
    expect(__any_sync(all, lane == 17) && !__any_sync(all, 0));
    expect(!__all_sync(all, lane != 17) && __all_sync(all, 2));
    expect(__match_any_sync(all, lane % 4) == 0x11111111u << lane % 4);
    expect(__match_any_sync(all, static_cast<long long>(lane % 2) << 40) == 0x55555555u << lane % 2);
    int equal = -1;
    expect(__match_all_sync(all, 9u, &equal) == all && equal == 1);
    expect(__match_all_sync(all, lane, &equal) == 0 && equal == 0);
    expect(__reduce_add_sync(all, lane) == 496 && __reduce_add_sync(all, -static_cast<int>(lane)) == -496);
    expect(__reduce_min_sync(all, lane + 5) == 5 && __reduce_max_sync(all, lane + 5) == 36);
    expect(__reduce_min_sync(all, static_cast<int>(lane) - 9) == -9);
    expect(__reduce_max_sync(all, static_cast<int>(lane) - 9) == 22);
    expect(__reduce_and_sync(all, lane | 64) == 64 && __reduce_or_sync(all, lane) == 31);
    expect(__reduce_xor_sync(all, 1u << lane) == all);

    // halves of a warp in different collectives at the same time
    if (lane < 16) {
        expect(__ballot_sync(0x0000ffffu, 1) == 0x0000ffffu);
        __syncwarp(0x0000ffffu);
    } else {
        expect(__reduce_add_sync(0xffff0000u, 1u) == 16);
    }
    __syncwarp();

    // an aggregated atomic over whatever lanes run together, from divergent code
    __shared__ unsigned counter;
    if (threadIdx.x == 0) counter = 0;
    __syncthreads();
    if (lane % 3 != 0) {
        const unsigned together = __activemask();
        bool right = together >> lane & 1;
        const unsigned leader = static_cast<unsigned>(__ffs(static_cast<int>(together))) - 1;
        unsigned first = 0;
        if (lane == leader) first = atomicAdd(&counter, static_cast<unsigned>(__popc(together)));
        first = __shfl_sync(together, first, static_cast<int>(leader));
        right &= first < 42;
        expect(right && (__match_any_sync(together, 1) == together));
    }
    __syncthreads();
    check = 22;
    expect(counter == 42);
    if (failed != 0) atomicOr(p.failed, failed);
}
