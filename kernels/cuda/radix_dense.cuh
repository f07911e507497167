// Adds the records of one partition after another to the table, whose part a cache holds.

#define IN_FLIGHT 4u

// Reads the records of a step of a piece; called by whole warps, for lanes that have gone apart would
// each read for themselves.
__device__ __forceinline__ void read_step(const Launch& p, const Records& from, const Piece& piece, u32 step,
                                          Record (&records)[IN_FLIGHT]) {
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < IN_FLIGHT; i++) {
        const u32 at = step + i * TG_BLOCK + threadIdx.x;
        if (at < piece.end) records[i] = record_of(p, from, piece, at);
    }
}

#ifndef TG_WITHOUT_aggregate
extern "C" __global__ void __launch_bounds__(TG_BLOCK) aggregate(const __grid_constant__ Launch p) {
    __shared__ u32 next;
    const Records from = records_at(p.from_pool, p.from_records);
    if (threadIdx.x == 0) next = take_ticket(p);
    __syncthreads();
    u32 ticket = next;
    while (ticket < (u32)p.num_tiles) {
        __syncthreads();
        if (threadIdx.x == 0) next = take_ticket(p);
        const Piece piece = piece_at(p, ticket, (u32)p.from_count);
#pragma unroll 1
        for (u32 step = piece.begin; step < piece.end; step += IN_FLIGHT * TG_BLOCK) {
            Record records[IN_FLIGHT];
            read_step(p, from, piece, step, records);
#pragma unroll
            for (u32 i = 0; i < IN_FLIGHT; i++) {
                if (step + i * TG_BLOCK + threadIdx.x < piece.end) absorb_record(p, records[i]);
            }
        }
        __syncthreads();
        ticket = next;
    }
}
#endif
