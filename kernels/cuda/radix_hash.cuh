// What else there is to do with the records of a hash table: counting their keys, sorting them further.

// The sample: one mixed key in 16, told by bits that no partition is told by.
#define SAMPLE_MASK 15ull
#define SAMPLE_SHIFT 32

#ifndef TG_WITHOUT_estimate
// Counts the mixed keys of the sample in the first `from_count` partitions; the spill buffer is a table
// of a power of two of mixed keys.
extern "C" __global__ void __launch_bounds__(TG_BLOCK) estimate(const __grid_constant__ Launch p) {
    const Records from = records_at(p.from_pool, p.from_records);
    const u32 region = (u32)p.from_region, mask = (u32)p.spill_capacity - 1;
    u32 found = 0;
    for (u32 part = 0; part < (u32)p.from_count; part++) {
        const u32 count = min(p.from_cursors[part], region);
        for (u32 i = blockIdx.x * TG_BLOCK + threadIdx.x; i < count; i += gridDim.x * TG_BLOCK) {
            const u64 hash = from.key[place_in_pool((u32)p.from_bits, part, i)];
            if (((hash >> SAMPLE_SHIFT) & SAMPLE_MASK) != 0 || hash == EMPTY) continue;
            u32 slot = (u32)hash & mask;
            u64 held = EMPTY;
#pragma unroll 1
            for (u32 probe = 0; probe < PROBES_MAX; probe++) {
                held = *(volatile u64*)(p.spill + slot);
                if (held == EMPTY) held = atomicCAS(p.spill + slot, EMPTY, hash);
                if (held == EMPTY || held == hash) break;
                slot = (slot + 1) & mask;
            }
            found += held != hash;
        }
    }
    const u64 total = warp_sum(found);
    if ((threadIdx.x & 31) == 0 && total != 0) atomicAdd(&p.flags[FLAG_DISTINCT], (u32)total);
}
#endif

// Reads a tile of a partition's records.
__device__ __forceinline__ void read_piece(const Launch& p, const Records& from, const Piece& piece,
                                           Record (&records)[RECORDS]) {
#pragma unroll
    for (int i = 0; i < RECORDS; i++) {
        const u32 at = piece.begin + i * TG_BLOCK + threadIdx.x;
        if (at < piece.end) records[i] = record_of(p, from, piece, at);
    }
}

#ifndef TG_WITHOUT_repartition
// Sorts the records of each partition by more bits.
extern "C" __global__ void __launch_bounds__(TG_BLOCK) repartition(const __grid_constant__ Launch p) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    const Staging staging = staging_at(shared_memory, TG_TILE);
    const Records from = records_at(p.from_pool, p.from_records);
    __syncthreads();
    if (threadIdx.x == 0) *staging.next = take_ticket(p);
    __syncthreads();
    bool spilled = false;
    Record records[RECORDS];
    u32 ticket = *staging.next;
    Piece piece = {0, 0, 0};
    if (ticket < (u32)p.num_tiles) {
        piece = piece_at(p, ticket, TG_TILE);
        read_piece(p, from, piece, records);
    }
    while (ticket < (u32)p.num_tiles) {
        u32 next = NO_TICKET, places[RECORDS];
        if (threadIdx.x == 0) {
            if (!spilled) next = take_ticket(p);
            spilled = has_spilled(p);
        }
#pragma unroll
        for (int i = 0; i < RECORDS; i++) {
            places[i] = piece.begin + i * TG_BLOCK + threadIdx.x < piece.end ? 0 : NO_PLACE;
        }
        const u32 first_part = piece.part << p.radix_bits;
        const u32 total = sort_tile<1>(p, staging, places, records, first_part, next);
        ticket = *staging.next;
        if (ticket < (u32)p.num_tiles) {
            piece = piece_at(p, ticket, TG_TILE);
            read_piece(p, from, piece, records);
        }
        write_tile<1>(p, staging, total, first_part);
    }
}
#endif
