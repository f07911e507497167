// Every block writes its index over its static and dynamic shared memory, lets other blocks run, and counts in
// `wrong` the places that have changed. The static variables sit in a kernel, a template and an inline function, for
// a compiler treats them differently. First, shared memory must hold 0xa5 and nothing of an earlier block.
// Dynamic shared memory: shared_bytes, a multiple of 4.

struct ResidentBlocksParams {
    unsigned shared_bytes;
    unsigned* wrong;
    unsigned* turns;
};

template <class T>
__device__ T* template_storage() {
    __shared__ T storage[40];
    return storage;
}

__device__ inline unsigned long long* inline_storage() {
    __shared__ unsigned long long storage[5];
    return storage;
}

extern "C" __global__ void __launch_bounds__(64) resident_blocks(const __grid_constant__ ResidentBlocksParams p) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    __shared__ uint4 own;
    unsigned* const words = reinterpret_cast<unsigned*>(shared_memory);
    const unsigned num_words = p.shared_bytes / 4;
    if (threadIdx.x == 0) {
        bool garbage = own.x == 0xa5a5a5a5u && own.w == 0xa5a5a5a5u;
        garbage = garbage && template_storage<unsigned>()[39] == 0xa5a5a5a5u;
        garbage = garbage && inline_storage()[4] == 0xa5a5a5a5a5a5a5a5ull;
        for (unsigned word = 0; word < num_words; ++word) garbage = garbage && words[word] == 0xa5a5a5a5u;
        if (!garbage) atomicAdd(p.wrong, 1u);
        own = make_uint4(blockIdx.x, 1, 2, blockIdx.x);
        for (unsigned i = 0; i < 40; ++i) template_storage<unsigned>()[i] = blockIdx.x;
        for (unsigned i = 0; i < 5; ++i) inline_storage()[i] = blockIdx.x;
    }
    __syncthreads();
    for (unsigned word = threadIdx.x; word < num_words; word += blockDim.x) words[word] = blockIdx.x;
    __syncthreads();
    for (int turn = 0; turn < 20; ++turn) {
        atomicAdd(p.turns, 1u);
        bool right = own.x == blockIdx.x && own.y == 1 && own.w == blockIdx.x;
        right = right && template_storage<unsigned>()[threadIdx.x % 40] == blockIdx.x;
        right = right && inline_storage()[threadIdx.x % 5] == blockIdx.x;
        for (unsigned word = threadIdx.x; word < num_words; word += blockDim.x)
            right = right && words[word] == blockIdx.x;
        if (!right) atomicAdd(p.wrong, 1u);
    }
}
