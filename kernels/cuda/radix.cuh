// Rows with many groups, sorted into partitions before they are taken in.
//
// A table that no cache holds costs a random access of memory for every row. So a row whose key is
// not among a block's hot ones becomes a record: its key, mixed if the table is a hash table, and
// what it adds. A block takes a tile of rows, counts them by partition, gives each partition a run of
// places in shared memory (`claim_runs`), puts the records there and writes them out run by run, each
// to where its partition's region of the pool goes on; of each run whole units only, so that memory
// gets whole sectors, and the rest is kept for the next tile: on an H200 500 million rows take 4.5 ms
// so, and 6.9 with sectors written half by half (Stehle and Jacobsen, "A Memory
// Bandwidth-Efficient Hybrid Radix Sort on GPUs", without its counting pass). A region that is full
// takes no more: such records are added to the table right away. Then `aggregate` takes partition by
// partition, whose part of the table a cache, or a block's shared memory, holds.
//
// A tile of which one partition has far more than its share says that the hot keys are not those that
// the block has: they are added to the table and chosen anew.

#define WAYS_MAX 512u
#define NO_PLACE 0xffffffffu
#define NO_TICKET 0xffffffffu
// Records of a partition that lie together.
#define CHUNK 64u
#define RECORDS (TG_UNROLL * TG_ROWS)
// Records of one partition that a thread takes up of those that its block has kept.
#define KEPT_EACH ((UNIT - 1 + TG_BLOCK / WAYS - 1) / (TG_BLOCK / WAYS) + (UNIT == 1))
// Records that a thread writes out together.
#define AT_ONCE 2u

// What a block shares while it sorts a tile.
struct Staging {
    u32* counts;   // records of each partition; between tiles those that are kept
    u32* first;    // where each partition's run begins
    u32* ahead;    // what to add to a place for the record's place in its region, modulo 2^32
    u32* end;      // where what is kept of each run begins
    u32* kept;     // how much that is
    u32* total;    // records in all
    u32* next;     // the next ticket
    u32* is_full;  // some region has no room for its run
    u32* crowded;  // one partition has far more than its share
    Records records;
};

__device__ __forceinline__ Staging staging_at(u8* at, u32 capacity) {
    Staging staging;
    staging.counts = (u32*)at;
    staging.first = staging.counts + WAYS_MAX;
    staging.ahead = staging.first + WAYS_MAX;
    staging.end = staging.ahead + WAYS_MAX;
    staging.kept = staging.end + WAYS_MAX;
    staging.total = staging.kept + WAYS_MAX;
    staging.next = staging.total + 1;
    staging.is_full = staging.total + 2;
    staging.crowded = staging.total + 3;
    staging.records = records_at((u8*)(staging.total + 4), capacity);
    for (u32 i = threadIdx.x; i < 5 * WAYS_MAX + 4; i += TG_BLOCK) staging.counts[i] = 0;
    return staging;
}

// Takes the next tile or piece; there are `num_tiles`. Tickets keep all blocks at neighbours, whose records or groups then
// share a cache.
__device__ __forceinline__ u32 take_ticket(const Launch& p) {
    return (u32)atomicAdd(p.resume, 1ull);
}

// Whether the spill buffer is in use: whoever sees that takes no more tickets.
__device__ __forceinline__ bool has_spilled(const Launch& p) { return *(volatile u32*)&p.flags[FLAG_SPILLED] != 0; }

// A partition's run, in the hands of the thread of the partition's number. Its first `out` records are
// written.
struct Run {
    u32 first, count, out, claimed;
};

// The place in a pool of so many partitions, a power of two, of a partition's record. The partitions'
// chunks take turns: where partitions grow together, all that is written at a time lies together, in
// few pages of memory (on an H200 1e8 dense groups take 17.5 ms so, and 18.4 with whole regions).
__device__ __forceinline__ u64 place_in_pool(u32 partition_bits, u32 part, u32 within) {
    return (((u64)(within / CHUNK) << partition_bits) + part) * CHUNK + within % CHUNK;
}

// Gives each partition that has records a run of places, and of its region for as many whole units as
// it has. Called by all threads of a block between two barriers; there are no more partitions than
// threads.
template <u32 U> __device__ __forceinline__ Run claim_runs(const Staging& staging, u32 ways, u32* cursors) {
    const u32 part = threadIdx.x, lane = threadIdx.x & 31;
    Run run = {0, 0, 0, 0};
    if (threadIdx.x == 0) *staging.is_full = *staging.crowded = 0;
    if ((part & ~31u) >= ways) return run;
    run.count = staging.counts[part];
    run.out = run.count & ~(U - 1);
    staging.counts[part] = run.count - run.out;
    if (run.out != 0) run.claimed = atomicAdd(cursors + part, run.out);
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

// Sorts the records of a tile by partition, into the block's shared memory, after those that it has
// kept; returns how many there are. `places` has NO_PLACE for what is no record, else anything;
// `first_part` is the number of the first partition; `ticket`, of thread 0, is the block's next, which
// all threads see as `staging.next` then.
template <u32 U>
__device__ __forceinline__ u32 sort_tile(const Launch& p, const Staging& staging, u32 (&places)[RECORDS],
                                         const Record (&records)[RECORDS], u32 first_part, u32 ticket) {
    const u32 ways = 1u << p.radix_bits;
#pragma unroll
    for (int i = 0; i < RECORDS; i++) {
        if (places[i] != NO_PLACE) places[i] = atomicAdd(staging.counts + part_of(p, records[i].key), 1u);
    }
    __syncthreads();
    const Run run = claim_runs<U>(staging, ways, p.cursors + first_part);
    // All threads take up what is kept, each a part of some partition's.
    const u32 part = threadIdx.x & (WAYS - 1), before = threadIdx.x / WAYS;
    Record kept[KEPT_EACH];
    u32 num_kept = 0;
    if (U > 1) {
        num_kept = staging.kept[part];
#pragma unroll
        for (u32 i = 0; i < KEPT_EACH; i++) {
            const u32 at = before + i * (TG_BLOCK / WAYS);
            if (at < num_kept) kept[i] = take(staging.records, staging.end[part] + at);
        }
    }
    __syncthreads();
    const u32 total = *staging.total;
#pragma unroll
    for (int i = 0; i < RECORDS; i++) {
        if (places[i] != NO_PLACE) put(staging.records, staging.first[part_of(p, records[i].key)] + places[i], records[i]);
    }
    if (U > 1) {
#pragma unroll
        for (u32 i = 0; i < KEPT_EACH; i++) {
            const u32 at = before + i * (TG_BLOCK / WAYS);
            if (at < num_kept) put(staging.records, staging.first[part] + at, kept[i]);
        }
    }
    if (threadIdx.x < ways) {
        staging.ahead[threadIdx.x] = run.claimed - run.first;
        staging.end[threadIdx.x] = run.first + run.out;
        staging.kept[threadIdx.x] = run.count - run.out;
        if (run.out != 0 && run.claimed + run.out > (u32)p.region) *staging.is_full = 1;
        if (run.count > min(8 * (TG_TILE / ways), TG_TILE / 2)) *staging.crowded = 1;
    }
    if (threadIdx.x == 0) *staging.next = ticket;
    __syncthreads();
    if (threadIdx.x == 0) *staging.total = 0;
    return total;
}

// Writes the sorted records of a tile out, but for what is kept. What the next tile reads may be on its
// way meanwhile.
template <u32 U>
__device__ __forceinline__ void write_tile(const Launch& p, const Staging& staging, u32 total, u32 first_part) {
    const u32 region = (u32)p.region;
    const u32 partition_bits = (u32)(p.radix_shift + p.radix_bits);
    const Records pool = records_at(p.pool, p.pool_records);
#pragma unroll 1
    for (u32 begin = threadIdx.x; begin < total; begin += AT_ONCE * TG_BLOCK) {
        Record r[AT_ONCE];
        u32 part[AT_ONCE], within[AT_ONCE];
        // All reads come before the first store, which the compiler must take for one of shared memory.
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++) r[i] = take(staging.records, min(begin + i * TG_BLOCK, total - 1));
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++) {
            const u32 place = begin + i * TG_BLOCK;
            part[i] = part_of(p, r[i].key);
            within[i] = staging.ahead[part[i]] + place;
            const u32 end = U > 1 ? staging.end[part[i]] : total;
            if (place >= end) within[i] = NO_PLACE;
        }
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++) {
            if (within[i] < region) put(pool, place_in_pool(partition_bits, first_part + part[i], within[i]), r[i]);
        }
    }
    if (*staging.is_full != 0) {
#pragma unroll 1
        for (u32 place = threadIdx.x; place < total; place += TG_BLOCK) {
            const Record r = take(staging.records, place);
            const u32 part = part_of(p, r.key);
            if (place < staging.end[part] && staging.ahead[part] + place >= region) absorb_record(p, r);
        }
    }
}

// Adds what is kept at last to the table.
__device__ __forceinline__ void absorb_kept(const Launch& p, const Staging& staging) {
    __syncthreads();
    if (threadIdx.x < 1u << p.radix_bits) {
        const u32 from = staging.end[threadIdx.x], kept = staging.kept[threadIdx.x];
#pragma unroll 1
        for (u32 i = 0; i < kept; i++) absorb_record(p, take(staging.records, from + i));
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
