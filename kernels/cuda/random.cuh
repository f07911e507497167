// Random values by position, with the bits that the host gives them (src/random).
//
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011) makes a block of four words of a counter. Of 64
// indices those 32 apart share a block, two for each, and those of singles that are 16 apart, four: the
// counter is the first of them. Every operation on floats is rounded to nearest by name, so that no
// compiler fuses or reorders any.
//
// A run is a row of a part of an array: indices a step apart in the flat array. A thread takes a bunch of
// TG_ROWS of its rows at a time: those of a block where the step is a power of two, else neighbours.
//
// All numbers are the first literals of the launch, so that instructions read them as constants and no
// register holds them: first the keys of the rounds, two parameters and the step, then the numbers of normal.rs.

#define RANDOM_WORD(index) (p.literals[index])
#define RANDOM_REAL(index) __longlong_as_double((i64)p.literals[index])

#define RANDOM_ROUNDS 10
#define RANDOM_FIRST 10   // location, low, start or the constant
#define RANDOM_SECOND 11  // scale, width, count or step
#define RANDOM_STEP 12
#define RANDOM_MINUS_TWO_LN_2 13
#define RANDOM_LOG 14
#define RANDOM_SINE 21
#define RANDOM_COSINE 28
#define RANDOM_CENTERS 34
#define RANDOM_LOGARITHMS 50

// The table of the logarithm in shared memory, an entry of which is read at once.
struct alignas(16) RandomEntry {
    double logarithm;
    double center;
};

struct RandomTables {
    RandomEntry entries[16];
};

template <class L> __device__ __forceinline__ void random_tables(const L& p, RandomTables& tables) {
    if (threadIdx.x < 16) {
        tables.entries[threadIdx.x] = {RANDOM_REAL(RANDOM_LOGARITHMS + threadIdx.x),
                                       RANDOM_REAL(RANDOM_CENTERS + threadIdx.x)};
    }
    __syncthreads();
}

// The whole product of two words in one instruction: of 64-bit factors whose upper halves are 0 the
// compiler adds the halves up.
__device__ __forceinline__ u64 random_product(u32 a, u32 b) {
#ifdef TG_HOST
    return (u64)a * b;
#else
    u64 product;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
    return product;
#endif
}

// The square root of 0 or of a number from 2^-60 to 2^60, correctly rounded: an estimate of 1 / sqrt,
// one step of third order, one of Newton's with an exact rest (Markstein, "IA-64 and elementary
// functions", 2000). Without the branch of __dsqrt_rn for other numbers, several of them interleave.
__device__ __forceinline__ double random_sqrt(double x) {
#ifdef TG_HOST
    return __dsqrt_rn(x);
#else
    // Of 0 the estimate is that of a number whose square is one, and every product with it 0.
    const double above = __hiloint2double(max(__double2hiint(x), 0x00200000), __double2loint(x));
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(above));
    const double error = __fma_rn(x, -__dmul_rn(y, y), 1.0);
    y = __fma_rn(__fma_rn(error, 0.375, 0.5), __dmul_rn(y, error), y);
    const double root = __dmul_rn(x, y);
    const double half = __hiloint2double(__double2hiint(y) - 0x00100000, __double2loint(y));
    return __fma_rn(__fma_rn(-root, root, x), half, root);
#endif
}

// The four words of the block of a counter.
struct RandomBlock {
    u32 word[4];
};

template <class L> __device__ __forceinline__ RandomBlock random_block(const L& p, u64 counter) {
    u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0;
#pragma unroll
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        const u64 keys = RANDOM_WORD(round);
        const u64 first = random_product(c0, 0xd2511f53u);
        const u64 second = random_product(c2, 0xcd9e8d57u);
        c0 = (u32)(second >> 32) ^ c1 ^ (u32)keys;
        c1 = (u32)second;
        c2 = (u32)(first >> 32) ^ c3 ^ (u32)(keys >> 32);
        c3 = (u32)first;
    }
    return {{c0, c1, c2, c3}};
}

// A double in [1, 2) from the low 52 bits of a word.
__device__ __forceinline__ double random_one_to_two(u32 low, u32 high) {
#ifdef TG_HOST
    const u32 upper = (high & 0x000fffffu) | 0x3ff00000u;
#else
    // In one instruction, for which the compiler keeps one of the constants in a register.
    u32 upper;
    asm("lop3.b32 %0, %1, 0x000fffff, %2, 0xea;" : "=r"(upper) : "r"(high), "r"(0x3ff00000u));
#endif
    return __hiloint2double((i32)upper, (i32)low);
}

// -2 ln u for u in (0, 1].
template <class L>
__device__ __forceinline__ double random_log(const L& p, const RandomTables& tables, double u) {
    const u32 high = (u32)__double2hiint(u);
    const u32 from_start = high - 0x3fe68000u;
    const RandomEntry entry = tables.entries[(from_start >> 16) & 15];
    const double z = __hiloint2double((i32)(high - (from_start & 0xfff00000u)), __double2loint(u));
    const double biased = __hiloint2double(0x43300000, (i32)((from_start + (1024u << 20)) >> 20));
    const double k = __dadd_rn(biased, -4503599627371520.0);
    const double r = __fma_rn(z, entry.center, -1.0);
    const double rest = __fma_rn(k, RANDOM_REAL(RANDOM_MINUS_TWO_LN_2), entry.logarithm);
    double slope = RANDOM_REAL(RANDOM_LOG);
#pragma unroll
    for (int power = 1; power < 7; power++) slope = __fma_rn(slope, r, RANDOM_REAL(RANDOM_LOG + power));
    return __fma_rn(__fma_rn(slope, r, -2.0), r, rest);
}

// The two normals of a block.
template <class L>
__device__ __forceinline__ void random_normals(const L& p, const RandomTables& tables, const RandomBlock& block,
                                               double& first, double& second) {
    const double u = __dadd_rn(2.0, -random_one_to_two(block.word[0], block.word[1]));
    const double radius = __dmul_rn(RANDOM_REAL(RANDOM_SECOND), random_sqrt(random_log(p, tables, u)));
    const u32 turn = block.word[3];
    const double y = __dadd_rn(random_one_to_two(block.word[2], turn), -1.5);
    const double square = __dmul_rn(y, y);
    double sine = RANDOM_REAL(RANDOM_SINE), cosine = RANDOM_REAL(RANDOM_COSINE);
#pragma unroll
    for (int power = 1; power < 7; power++) sine = __fma_rn(sine, square, RANDOM_REAL(RANDOM_SINE + power));
#pragma unroll
    for (int power = 1; power < 6; power++) cosine = __fma_rn(cosine, square, RANDOM_REAL(RANDOM_COSINE + power));
    sine = __dmul_rn(y, sine);
    cosine = __fma_rn(cosine, square, 1.0);
    const bool swapped = (turn & 0x20000000u) != 0;
    const double x = swapped ? sine : cosine;
    const double w = swapped ? cosine : sine;
    const i32 x_high = (i32)((u32)__double2hiint(x) ^ (turn & 0x80000000u));
    const i32 w_high = (i32)((u32)__double2hiint(w) ^ ((turn << 1) & 0x80000000u));
    const double location = RANDOM_REAL(RANDOM_FIRST);
    first = __fma_rn(radius, __hiloint2double(x_high, __double2loint(x)), location);
    second = __fma_rn(radius, __hiloint2double(w_high, __double2loint(w)), location);
}

template <class L> __device__ __forceinline__ double random_uniform(const L& p, u32 low, u32 high) {
    const double u = __dadd_rn(random_one_to_two(low, high), -1.0);
    return __fma_rn(u, RANDOM_REAL(RANDOM_SECOND), RANDOM_REAL(RANDOM_FIRST));
}

template <class L> __device__ __forceinline__ i64 random_integer(const L& p, u32 low, u32 high) {
    const u64 bits = (u64)low | ((u64)high << 32), count = RANDOM_WORD(RANDOM_SECOND);
    return (i64)((count == 0 ? bits : __umul64hi(bits, count)) + RANDOM_WORD(RANDOM_FIRST));
}

// Where a thread is in a segment of runs.
struct Place {
    u64 start;  // the flat index at which the run begins
    u32 run;
    u32 bunch;  // the bunch of the run
};

// A bunch of rows: their flat indices are at + from[r], and what is not of the run is outside.
struct Bunch {
    u64 at;       // the flat index at which the run begins
    u64 counter;  // that of the first row, the block's counter where all rows are of one
    u32 from[TG_ROWS];
    bool inside[TG_ROWS];
};

// How far apart the rows of a block are, and how many blocks 64 indices have.
#define TG_SPREAD (64 / TG_ROWS)

// The segment's first flat index and the runs' distance stand in for a column's addresses; its width is the reach of a
// run and, above, how many bunches of rows a run takes.
__device__ __forceinline__ u32 bunches_of(const Column& runs) { return (u32)(runs.width >> 32); }

__device__ __forceinline__ Place place_of(const Column& runs, u32 bunch) {
    const u32 run = bunch / bunches_of(runs);
    return {(u64)runs.data + run * (u64)runs.validity, run, bunch - run * bunches_of(runs)};
}

__device__ __forceinline__ void advance(Place& place, const Column& runs, u32 by) {
    place.bunch += by;
    while (place.bunch >= bunches_of(runs)) {
        place.bunch -= bunches_of(runs);
        place.run++;
        place.start += (u64)runs.validity;
    }
}

// The next bunch: without a loop or a branch, so that several are made at once.
__device__ __forceinline__ Place next_place(const Place& place, const Column& runs) {
    const bool ends = place.bunch + 1 == bunches_of(runs);
    return {place.start + (ends ? (u64)runs.validity : 0ull), place.run + (ends ? 1u : 0u), ends ? 0u : place.bunch + 1};
}

// The bunch of a block, the `ahead`-th from a place: the run is laid over groups of 64 indices, of which each has
// TG_SPREAD >> LOG blocks. Those of places at multiples of a power of two lie in one group if that has so many.
template <int LOG> __device__ __forceinline__ Bunch block_bunch(const Place& place, u32 reach, u32 ahead) {
    const u32 per_group = TG_SPREAD >> LOG, lead = (u32)place.start & 63;
    const u32 first = per_group % TG_UNROLL == 0 ? place.bunch : place.bunch + ahead;
    const u32 group = first / per_group * 64;
    const u32 within = (first % per_group << LOG) + (lead & ((1u << LOG) - 1));
    const u32 in_group = per_group % TG_UNROLL == 0 ? within | ahead << LOG : within;
    Bunch bunch;
    bunch.at = place.start;
    // Both are multiples of 64, so that bunches of one group share all but the lowest bits.
    bunch.counter = (place.start - lead + group) | in_group;
#pragma unroll
    for (int r = 0; r < TG_ROWS; r++) {
        bunch.from[r] = group + in_group + TG_SPREAD * r - lead;
        bunch.inside[r] = bunch.from[r] < reach;
    }
    return bunch;
}

// The bunch of a block, from its counter on.
__device__ __forceinline__ Bunch whole_bunch(u64 counter) {
    Bunch bunch;
    bunch.at = counter;
    bunch.counter = counter;
#pragma unroll
    for (int r = 0; r < TG_ROWS; r++) {
        bunch.from[r] = TG_SPREAD * r;
        bunch.inside[r] = true;
    }
    return bunch;
}

// Whether TG_UNROLL bunches from a place on are of one run, and all of their rows are inside.
template <int LOG> __device__ __forceinline__ bool all_inside(const Place& place, const Column& runs) {
    const u32 reach = (u32)runs.width;
    const bool of_one_run = place.bunch + TG_UNROLL <= bunches_of(runs);
    // Without a branch between them.
    return of_one_run & block_bunch<LOG>(place, reach, 0).inside[0] &
           block_bunch<LOG>(place, reach, TG_UNROLL - 1).inside[TG_ROWS - 1];
}

// Neighbours of a run of any step.
__device__ __forceinline__ Bunch neighbour_bunch(const Place& place, u32 reach, u32 step) {
    Bunch bunch;
    bunch.at = place.start;
    bunch.counter = 0;
#pragma unroll
    for (int r = 0; r < TG_ROWS; r++) {
        const u64 from = (u64)(TG_ROWS * place.bunch + r) * step;
        bunch.inside[r] = from < reach;
        bunch.from[r] = (u32)from;
    }
    return bunch;
}
