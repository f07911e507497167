// Rows with many groups, sorted into partitions before they are taken in.
//
// A table that no cache holds costs a random access of memory for every row. So a row whose key is
// not among a block's hot ones becomes a record: its key, mixed if the table is a hash table, and
// what it adds. A block takes a tile of rows, counts them by partition, gives each partition a run of
// places in shared memory (`claim_runs`), puts the records there and writes them out run by run, each
// to where its partition's region of the pool goes on (Stehle and Jacobsen, "A Memory
// Bandwidth-Efficient Hybrid Radix Sort on GPUs", without its counting pass). A region that is full
// takes no more: such records are added to the table right away. Then `aggregate` takes partition by
// partition, whose part of the table a cache, or a block's shared memory, holds.
//
// A tile that falls mostly into one partition says that the hot keys are no longer those that the
// block has: they are added to the table and chosen anew.

#define WAYS_MAX 512u
#define NO_PLACE 0xffffffffu
#define NO_TICKET 0xffffffffu
// Records of a partition that lie together.
#define CHUNK 64u
#define RECORDS (TG_UNROLL * TG_ROWS)

// What a block shares while it sorts a tile.
struct Staging {
    u32* counts;   // records of each partition, zero between tiles
    u32* first;    // where each partition's run begins
    u32* ahead;    // what to add to a place for the record's place in its region, modulo 2^32
    u32* total;    // records in all
    u32* next;     // the next ticket
    u32* is_full;  // some region has no room for its run
    u32* crowded;  // one partition has most of the tile
    Records records;
};

__device__ __forceinline__ Staging staging_at(u8* at) {
    Staging staging;
    staging.counts = (u32*)at;
    staging.first = staging.counts + WAYS_MAX;
    staging.ahead = staging.first + WAYS_MAX;
    staging.total = staging.ahead + WAYS_MAX;
    staging.next = staging.total + 1;
    staging.is_full = staging.total + 2;
    staging.crowded = staging.total + 3;
    staging.records = records_at((u8*)(staging.total + 4), TG_TILE);
    for (u32 i = threadIdx.x; i < 3 * WAYS_MAX + 4; i += TG_BLOCK) staging.counts[i] = 0;
    return staging;
}

// Takes the next tile or piece; there are `num_tiles`. Tickets keep all blocks at neighbours, whose records or groups then
// share a cache.
__device__ __forceinline__ u32 take_ticket(const Launch& p) {
    return (u32)atomicAdd(p.resume, 1ull);
}

// Whether the spill buffer is in use: whoever sees that takes no more tickets.
__device__ __forceinline__ bool has_spilled(const Launch& p) { return *(volatile u32*)&p.flags[FLAG_SPILLED] != 0; }

// A partition's run, in the hands of the thread of the partition's number.
struct Run {
    u32 first, count, claimed;
};

// The place in a pool of so many partitions, a power of two, of a partition's record. The partitions'
// chunks take turns: where partitions grow together, all that is written at a time lies together, in
// few pages of memory (on an H200 1e8 dense groups take 17.5 ms so, and 18.4 with whole regions).
__device__ __forceinline__ u64 place_in_pool(u32 partition_bits, u32 part, u32 within) {
    return (((u64)(within / CHUNK) << partition_bits) + part) * CHUNK + within % CHUNK;
}

// Gives each partition that has records a run of places and of its region. Called by all threads of a
// block between two barriers; there are no more partitions than threads.
__device__ __forceinline__ Run claim_runs(const Staging& staging, u32 ways, u32* cursors) {
    const u32 part = threadIdx.x, lane = threadIdx.x & 31;
    Run run = {0, 0, 0};
    if (threadIdx.x == 0) *staging.is_full = *staging.crowded = 0;
    if ((part & ~31u) >= ways) return run;
    run.count = staging.counts[part];
    staging.counts[part] = 0;
    if (run.count != 0) run.claimed = atomicAdd(cursors + part, run.count);
    u32 upto = run.count;
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
        const u32 other = __shfl_up_sync(0xffffffffu, upto, distance);
        if (lane >= distance) upto += other;
    }
    u32 before = 0;
    if (lane == 31) before = atomicAdd(staging.total, upto);
    run.first = __shfl_sync(0xffffffffu, before, 31) + upto - run.count;
    staging.first[part] = run.first;
    return run;
}

// Sorts the records of a tile by partition and writes them out. `places` has NO_PLACE for what is no
// record, else anything; `first_part` is the number of the first partition; `ticket`, of thread 0, is
// the block's next.
__device__ __forceinline__ void sort_tile(const Launch& p, const Staging& staging, u32 (&places)[RECORDS],
                                          const Record (&records)[RECORDS], u32 first_part, u32 ticket) {
    const u32 ways = 1u << p.radix_bits, region = (u32)p.region;
    const u32 partition_bits = (u32)(p.radix_shift + p.radix_bits);
    const Records pool = records_at(p.pool, p.pool_records);
#pragma unroll
    for (int i = 0; i < RECORDS; i++) {
        if (places[i] != NO_PLACE) places[i] = atomicAdd(staging.counts + part_of(p, records[i].key), 1u);
    }
    __syncthreads();
    const Run run = claim_runs(staging, ways, p.cursors + first_part);
    __syncthreads();
    const u32 total = *staging.total;
#pragma unroll
    for (int i = 0; i < RECORDS; i++) {
        if (places[i] != NO_PLACE) put(staging.records, staging.first[part_of(p, records[i].key)] + places[i], records[i]);
    }
    if (threadIdx.x < ways) {
        staging.ahead[threadIdx.x] = run.claimed - run.first;
        if (run.count != 0 && run.claimed + run.count > region) *staging.is_full = 1;
        if (run.count > TG_TILE / 2) *staging.crowded = 1;
    }
    if (threadIdx.x == 0) *staging.next = ticket;
    __syncthreads();
    if (threadIdx.x == 0) *staging.total = 0;
#pragma unroll 4
    for (u32 place = threadIdx.x; place < total; place += TG_BLOCK) {
        const Record r = take(staging.records, place);
        const u32 part = part_of(p, r.key), within = staging.ahead[part] + place;
        if (within < region) put(pool, place_in_pool(partition_bits, first_part + part, within), r);
    }
    if (*staging.is_full != 0) {
#pragma unroll 1
        for (u32 place = threadIdx.x; place < total; place += TG_BLOCK) {
            const Record r = take(staging.records, place);
            if (staging.ahead[part_of(p, r.key)] + place >= region) absorb_record(p, r);
        }
    }
}

// A piece of a partition's records.
struct Piece {
    u32 part, begin, end;
};

__device__ __forceinline__ Piece piece_at(const Launch& p, u32 ticket, u32 records) {
    Piece piece;
    piece.part = (u32)(ticket / p.tiles_per_segment);
    piece.begin = (u32)(ticket % p.tiles_per_segment) * records;
    const u32 count = min(p.from_cursors[piece.part], (u32)p.from_region);
    piece.end = min(count, piece.begin + records);
    return piece;
}

// Reads a record of a piece for the only time.
__device__ __forceinline__ Record record_of(const Launch& p, const Records& from, const Piece& piece, u32 at) {
    return take_once(from, place_in_pool((u32)p.from_bits, piece.part, at));
}
