// Tests of the shim by kernels whose answers are known, each under many seeds and numbers of resident blocks.
//
//     c++ -std=c++17 -O1 -Wall -Wextra -Wno-unknown-pragmas -fno-strict-aliasing -ffp-contract=off
//         -I kernels/shim kernels/tests/shim/self_test.cpp kernels/shim/shim.cpp -o self_test
//
// Exits with 1 and a line per failure on the standard error. `self_test time` prints what yields cost instead.

#include <initializer_list>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "shim.hpp"

#include "arithmetic.cu"
#include "atomic_yield.cu"
#include "collectives.cu"
#include "exits.cu"
#include "faults.cu"
#include "histogram.cu"
#include "lookback.cu"
#include "missing_barrier.cu"
#include "reduce.cu"
#include "resident_blocks.cu"

TG_SHIM_ENTRY(arithmetic, ArithmeticParams)
TG_SHIM_ENTRY(atomic_yield, AtomicYieldParams)
TG_SHIM_ENTRY(collectives, CollectivesParams)
TG_SHIM_ENTRY(exits, ExitsParams)
TG_SHIM_ENTRY(faults, FaultsParams)
TG_SHIM_ENTRY(histogram, HistogramParams)
TG_SHIM_ENTRY(lookback, LookbackParams)
TG_SHIM_ENTRY(missing_barrier, MissingBarrierParams)
TG_SHIM_ENTRY(reduce, ReduceParams)
TG_SHIM_ENTRY(resident_blocks, ResidentBlocksParams)

namespace {

int failures = 0;
char message[8192];

void expect(bool right, const char* what, unsigned long long seed) {
    if (right) return;
    ++failures;
    fprintf(stderr, "failed: %s (seed %llu) %s\n", what, seed, message);
}

struct Shape {
    unsigned blocks, threads, shared_bytes, resident_blocks;
};

template <class Params, class Entry>
int launch(Entry entry, const Params& params, Shape shape, unsigned long long seed) {
    return entry(&params, sizeof params, shape.blocks, shape.threads, shape.shared_bytes, seed, shape.resident_blocks,
                 message, sizeof message);
}

void test_reduce(unsigned long long seed) {
    constexpr unsigned ROWS = 1000;
    static long long values[ROWS];
    long long expected = 0;
    for (unsigned row = 0; row < ROWS; ++row) expected += values[row] = (row * 7919LL - 3000000) * 1048576;
    unsigned long long total = 0;
    const ReduceParams params = {values, ROWS, &total};
    const unsigned resident = 1 + static_cast<unsigned>(seed % 4);
    expect(launch(tg_run_reduce, params, {7, 64, 0, resident}, seed) == TG_OK, "reduce", seed);
    expect(static_cast<long long>(total) == expected, "sum of reduce", seed);
}

void test_histogram(unsigned long long seed) {
    constexpr unsigned ROWS = 777, BINS = 10;
    static unsigned char values[ROWS];
    unsigned expected[BINS] = {}, counts[BINS] = {};
    for (unsigned row = 0; row < ROWS; ++row) {
        values[row] = static_cast<unsigned char>(row * row);
        ++expected[values[row] % BINS];
    }
    const HistogramParams params = {values, ROWS, BINS, counts};
    expect(launch(tg_run_histogram, params, {5, 64, BINS * 4, 3}, seed) == TG_OK, "histogram", seed);
    expect(memcmp(expected, counts, sizeof counts) == 0, "counts of histogram", seed);
}

void test_lookback(unsigned long long seed, unsigned resident_blocks) {
    constexpr unsigned BLOCKS = 9, ROWS = BLOCKS * 64 - 5;
    static unsigned values[ROWS], sums[ROWS];
    unsigned ticket = 0, published[BLOCKS] = {}, running_sums[BLOCKS] = {};
    for (unsigned row = 0; row < ROWS; ++row) values[row] = row * 31 % 1009;
    const LookbackParams params = {values, ROWS, sums, &ticket, published, running_sums, 0};
    expect(launch(tg_run_lookback, params, {BLOCKS, 64, 0, resident_blocks}, seed) == TG_OK, "lookback", seed);
    unsigned sum = 0;
    bool right = true;
    for (unsigned row = 0; row < ROWS; ++row) right &= sums[row] == (sum += values[row]);
    expect(right, "sums of lookback", seed);
}

// Blocks that wait for the one before them by index may not rely on its having started.
void test_order_of_blocks() {
    unsigned values[9] = {}, sums[9], stuck = 0;
    for (unsigned long long seed = 0; seed < 4; ++seed) {
        unsigned ticket = 0, published[9] = {}, running_sums[9] = {};
        const LookbackParams params = {values, 9, sums, &ticket, published, running_sums, 1};
        const int code = launch(tg_run_lookback, params, {9, 64, 0, 2}, seed);
        expect(code == TG_OK || code == TG_NO_PROGRESS, "lookback by index", seed);
        stuck += code == TG_NO_PROGRESS;
    }
    expect(stuck != 0, "some order of blocks must hang", 0);
}

unsigned long long run_missing_barrier(int with_barrier, unsigned long long seed) {
    unsigned output[128];
    const MissingBarrierParams params = {output, with_barrier};
    expect(launch(tg_run_missing_barrier, params, {2, 64, 0, 2}, seed) == TG_OK, "missing_barrier", seed);
    unsigned long long hash = 0;
    for (unsigned i = 0; i < 128; ++i) hash = hash * 31 + output[i];
    return hash;
}

void test_missing_barrier() {
    unsigned long long right = 0;
    for (unsigned i = 0; i < 128; ++i) right = right * 31 + (63 - i % 64);
    for (unsigned long long seed = 0; seed < 20; ++seed) {
        expect(run_missing_barrier(1, seed) == right, "with the barrier", seed);
        const unsigned long long without = run_missing_barrier(0, seed);
        expect(without != right, "without the barrier", seed);
        expect(without == run_missing_barrier(0, seed), "the same seed gives the same order", seed);
        expect(without != run_missing_barrier(0, seed + 1), "another seed gives another order", seed);
    }
}

void test_resident_blocks(unsigned long long seed) {
    for (unsigned resident : {1u, 2u, 4u, 64u}) {
        for (unsigned shared_bytes : {0u, 4u, 4096u}) {
            unsigned wrong = 0, turns = 0;
            const ResidentBlocksParams params = {shared_bytes, &wrong, &turns};
            const Shape shape = {6, 64, shared_bytes, resident};
            expect(launch(tg_run_resident_blocks, params, shape, seed) == TG_OK, "resident_blocks", seed);
            expect(wrong == 0 && turns == 6 * 64 * 20, "shared memory of resident blocks", seed);
        }
    }
}

void test_exits(unsigned long long seed) {
    for (unsigned threads : {1u, 2u, 31u, 32u, 33u, 63u, 64u}) {
        int results[7];
        const ExitsParams params = {threads, results};
        expect(launch(tg_run_exits, params, {1, 64, 0, 1}, seed) == TG_OK, "exits", seed);
        const int odd = static_cast<int>(threads / 2), count = static_cast<int>(threads);
        const int expected[7] = {odd > 0, 0, odd, 1, 1, count, 7};
        expect(memcmp(results, expected, sizeof results) == 0, "results of barriers", seed);
    }
}

void test_collectives(unsigned long long seed) {
    unsigned failed = 0;
    const CollectivesParams params = {&failed};
    expect(launch(tg_run_collectives, params, {4, 64, 0, 2}, seed) == TG_OK, "collectives", seed);
    if (failed != 0) snprintf(message, sizeof message, "checks 0x%x", failed);
    expect(failed == 0, "results of collectives", seed);
}

void test_arithmetic() {
    unsigned long long failed = ~0ULL;
    const ArithmeticParams params = {&failed, 0.0, static_cast<long long>(1ULL << 63)};
    expect(launch(tg_run_arithmetic, params, {1, 1, 0, 1}, 0) == TG_OK, "arithmetic", 0);
    if (failed != 0) snprintf(message, sizeof message, "checks 0x%llx", failed);
    expect(failed == 0, "results of arithmetic", 0);
}

void expect_fault(Fault fault, tg_status status, const char* words, unsigned long long seed) {
    alignas(8) unsigned numbers[4] = {fault == DEEP_RECURSION ? 250u : 0, 0, 0, 0};
    const FaultsParams params = {fault, numbers};
    const int code = launch(tg_run_faults, params, {3, 64, 100, 2}, seed);
    expect(code == status, words, seed);
    expect(strstr(message, "kernel faults: ") == message && strstr(message, words) != nullptr, words, seed);
    if (code == TG_OK) fprintf(stderr, "  fault %d gave no error\n", fault);
}

void test_faults(unsigned long long seed) {
    expect_fault(DIVERGENT_BALLOT, TG_DEADLOCK, "wait in __ballot_sync with mask 0xffffffff at line", seed);
    expect_fault(DIFFERENT_COLLECTIVES, TG_COLLECTIVE_MISMATCH, "waits in a different collective", seed);
    expect_fault(DIFFERENT_MASKS, TG_COLLECTIVE_MISMATCH, "with a different mask", seed);
    expect_fault(MASK_WITHOUT_SELF, TG_COLLECTIVE_MISMATCH, "does not name the calling lane", seed);
    expect_fault(EXITED_LANE_IN_MASK, TG_COLLECTIVE_MISMATCH, "names a lane that has left the kernel", seed);
    expect_fault(EXIT_WHILE_AWAITED, TG_COLLECTIVE_MISMATCH, "leaves the kernel while other lanes wait", seed);
    expect_fault(BAD_WIDTH, TG_COLLECTIVE_MISMATCH, "width", seed);
    expect_fault(BARRIER_NOT_REACHED, TG_DEADLOCK, "wait in __syncthreads at line", seed);
    expect_fault(DIFFERENT_BARRIERS, TG_BARRIER_MISMATCH, "__syncthreads_or", seed);
    expect_fault(SHARED_OVERRUN, TG_SHARED_OVERRUN, "wrote byte 120 of dynamic shared memory", seed);
#ifndef __SANITIZE_ADDRESS__ // its stacks are larger
    expect_fault(DEEP_RECURSION, TG_STACK_OVERFLOW, "bytes of stack", seed);
#endif
    expect_fault(TRAP, TG_TRAP, "thread 33 (warp 1 lane 1) called __trap() at line", seed);
    expect_fault(FALSE_ASSUMPTION, TG_FALSE_ASSUMPTION, "threadIdx.x < 63", seed);
    expect_fault(MISALIGNED_ATOMIC, TG_MISALIGNED_ATOMIC, "atomic of 8 bytes", seed);
    expect_fault(ENDLESS_SPIN, TG_NO_PROGRESS, "no block has finished", seed);
}

void expect_bad_launch(Shape shape, unsigned long long params_bytes, const char* words) {
    unsigned output[64];
    const MissingBarrierParams params = {output, 1};
    const int code = tg_run_missing_barrier(&params, params_bytes, shape.blocks, shape.threads, shape.shared_bytes, 1,
                                            shape.resident_blocks, message, sizeof message);
    expect(code == TG_BAD_LAUNCH && strstr(message, words) != nullptr, words, 1);
}

void test_bad_launches() {
    constexpr unsigned long long bytes = sizeof(MissingBarrierParams);
    expect_bad_launch({1, 64, 0, 1}, bytes + 1, "params_bytes");
    expect_bad_launch({0, 64, 0, 1}, bytes, "blocks must not be 0");
    expect_bad_launch({1, 0, 0, 1}, bytes, "threads must be");
    expect_bad_launch({1, 1025, 0, 1}, bytes, "threads must be");
    expect_bad_launch({1, 64, TG_SHARED_BYTES_MAX + 1, 1}, bytes, "shared_bytes");
    expect_bad_launch({1, 64, 0, 0}, bytes, "resident_blocks");

    unsigned output[64];
    const MissingBarrierParams params = {output, 1};
    const int code = tg_run_missing_barrier(&params, bytes, 1, 64, TG_SHARED_BYTES_MAX, 1, 1, nullptr, 0);
    expect(code == TG_OK, "all of shared memory and no message", 1);
    char tiny[4];
    expect(tg_run_missing_barrier(&params, 0, 1, 64, 0, 1, 1, tiny, sizeof tiny) == TG_BAD_LAUNCH, "tiny message", 1);
    expect(strcmp(tiny, "ker") == 0, "a message is cut to fit", 1);
}

double seconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void print_times() {
    constexpr unsigned BLOCKS = 8, ROUNDS = 4000;
    for (unsigned resident : {1u, 4u}) {
        for (unsigned shared_bytes : {0u, 4096u, 49152u}) {
            double least = 1e9, most = 0;
            for (unsigned long long seed = 0; seed < 24; ++seed) {
                unsigned counter = 0;
                const AtomicYieldParams params = {ROUNDS, &counter};
                const double start = seconds();
                const Shape shape = {BLOCKS, 64, shared_bytes, resident};
                expect(launch(tg_run_atomic_yield, params, shape, seed) == TG_OK, "time", seed);
                const double each = (seconds() - start) / (BLOCKS * 64.0 * ROUNDS * 2);
                least = each < least ? each : least;
                most = each > most ? each : most;
            }
            printf("%u resident, %5u bytes of shared memory: %6.1f to %6.1f ns per yield, by seed\n", resident,
                   shared_bytes, least * 1e9, most * 1e9);
        }
    }
}

} // namespace

int main(int count, char** arguments) {
    if (count > 1 && strcmp(arguments[1], "time") == 0) {
        print_times();
        return failures != 0;
    }
    tg_shim_set_yields_max(1 << 20);
    test_arithmetic();
    test_missing_barrier();
    test_order_of_blocks();
    test_bad_launches();
    for (unsigned long long seed = 0; seed < 50; ++seed) {
        test_reduce(seed);
        test_histogram(seed);
        for (unsigned resident = 1; resident <= 4; ++resident) test_lookback(seed, resident);
        test_exits(seed);
        test_collectives(seed);
    }
    for (unsigned long long seed = 0; seed < 12; ++seed) {
        test_resident_blocks(seed);
        test_faults(seed);
    }
    if (failures != 0) return 1;
    puts("ok");
    return 0;
}
