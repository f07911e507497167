// The scheduler behind shim.hpp: runs a grid of blocks on one operating system thread.
//
// Every thread of a block is a fibre with its own stack. A fibre runs until it yields (tg_yield: most yields are
// counted only, and the one that exhausts the budget switches) or until it must wait. The next fibre is then drawn
// uniformly from the block's runnable ones by a generator that the seed starts. The seed also chooses how long fibres
// run between switches and how often another block takes over: some races need a thread that runs far ahead, others
// need constant alternation.
//
// Blocks start in a shuffled order. Up to `resident_blocks` are resident at once; shared memory keeps its address and
// is copied out and in when another block takes over, so its size decides what a change of block costs.
//
// A collective is complete when all lanes of its mask wait in it. The last lane to arrive computes the results of all
// of them, stores one in each fibre and makes them runnable; nobody can thus overwrite an operand that is still needed.
// Blocks wait for each other only by spinning, which is why a block of which no fibre can run is a deadlock.
//
// Errors are found inside a fibre. They fill the message and leave for the scheduler; the abandoned fibres never run
// again, and as kernels own nothing that needs a destructor, nothing leaks.
//
// No C++ standard library is used: the shared object then holds no thread-local variables but the kernel's.

#define TG_SHIM_INTERFACE_ONLY
#include "shim.hpp"

#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define TG_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TG_ASAN 1
#endif
#endif
#ifdef TG_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(TG_SHIM_UCONTEXT) || !(defined(__x86_64__) || defined(__aarch64__))
#define TG_UCONTEXT 1
#include <ucontext.h>
#endif

tg_index tg_thread_index, tg_block_index, tg_block_size, tg_grid_size;
unsigned tg_yields_left;

namespace {

constexpr unsigned LANES = 32;
constexpr unsigned THREADS_MAX = 1024;
constexpr unsigned RESIDENT_BLOCKS_MAX = 64;
constexpr unsigned char SHARED_GARBAGE = 0xa5;
constexpr unsigned char SHARED_GUARD = 0x5c;
constexpr uint64_t STACK_CANARY = 0x7b1d5aa5c3e1f00dULL;
#ifdef TG_ASAN
constexpr size_t STACK_BYTES = 512 << 10; // instrumented frames are several times larger
#else
constexpr size_t STACK_BYTES = 64 << 10;
#endif
// Below every stack. A frame that is larger can jump over it: compile with -Wframe-larger-than.
constexpr size_t CANARY_BYTES = 4 << 10;
constexpr size_t STACK_STRIDE = STACK_BYTES + CANARY_BYTES;
constexpr uint64_t YIELDS_MAX_DEFAULT = 1ULL << 27; // a few seconds

const char* const COLLECTIVE_NAMES[TG_COLLECTIVE_KINDS] = {
    "__syncwarp",        "__ballot_sync",    "__any_sync",        "__all_sync",        "__shfl_sync",
    "__shfl_up_sync",    "__shfl_down_sync", "__shfl_xor_sync",   "__match_any_sync",  "__match_all_sync",
    "__reduce_add_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync", "__reduce_min_sync",
    "__reduce_max_sync", "__reduce_min_sync", "__reduce_max_sync"};
const char* const BARRIER_NAMES[TG_BARRIER_KINDS] = {"__syncthreads", "__syncthreads_or", "__syncthreads_and",
                                                     "__syncthreads_count"};

// ---- types

enum class State : unsigned { Runnable, InCollective, InBarrier, Exited };

struct Block;

struct Fibre {
#ifdef TG_UCONTEXT
    ucontext_t context;
#else
    void* stack_pointer;
#endif
    void* fake_stack;       // AddressSanitizer's
    unsigned char* stack;   // the lowest usable byte; the canary lies below
    Block* block;
    unsigned thread;
    unsigned runnable_at;   // position in the block's list while Runnable
    State state;
    int line;               // of the call in which it waits
    // the collective in which it waits
    tg_collective kind;
    unsigned mask, bytes, argument, width;
    uint64_t value;
    // what the call gives back
    uint64_t result;
    // __activemask: the line while it looks for company, and the mask once it is decided
    int activemask_line;
    unsigned activemask;
};

struct Warp {
    unsigned missing;    // lanes that a block of this size does not have
    unsigned exited;     // lanes that have left the kernel
    unsigned waiting;    // lanes in a collective
    bool uniform;        // all of them in the same one, that is:
    tg_collective kind;
    unsigned mask, bytes;
};

struct Block {
    unsigned index;
    unsigned live;       // fibres that have not left the kernel
    unsigned runnable_count;
    Fibre** runnable;
    Fibre* fibres;
    Warp* warps;
    unsigned char* saved_shared;
    // the barrier at which fibres wait
    unsigned arrived;
    tg_barrier barrier;
    int barrier_line;
    unsigned predicates; // how many were true
};

struct Random {
    uint64_t state;

    static uint64_t mix(uint64_t x) { // splitmix64's finaliser
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
        return x ^ (x >> 31);
    }
    uint64_t next() { return mix(state += 0x9e3779b97f4a7c15ULL); }
    unsigned below(unsigned bound) { return static_cast<unsigned>(((next() >> 32) * bound) >> 32); }
};

struct Run {
    const tg_launch* launch;
    unsigned char* params; // aligned copy
    Random random;
    unsigned burst;         // mean number of yields between switches
    unsigned block_stay;    // a switch changes the block once in so many
    unsigned budget;        // what tg_yields_left started from
    uint64_t yields;
    uint64_t yields_at_last_end;
    uint64_t switches;
    Fibre main;
    Fibre* current;
    Block* block;           // whose shared memory is in place
    Block* finished;
    Block** live;
    unsigned live_count;
    // the thread-local block of this shared object: [static_begin, shared) and [shared_end, static_end) are the
    // kernel's static shared variables, [shared, shared_end) is the array `shared_memory`
    unsigned char *static_begin, *shared, *shared_end, *static_end;
    int code;
    const void* main_stack;
    size_t main_stack_bytes;
};

pthread_mutex_t run_lock = PTHREAD_MUTEX_INITIALIZER;
Run run;
uint64_t yields_max = YIELDS_MAX_DEFAULT;

// Stacks stay mapped from launch to launch.
struct {
    unsigned char* memory;
    size_t count;
    bool canaries_set; // and the last launch has found them whole
} stacks;

// ---- messages

struct Text {
    char* at;
    size_t left;
};
Text text;

__attribute__((format(printf, 1, 2))) void say(const char* format, ...) {
    if (text.left == 0) return;
    va_list arguments;
    va_start(arguments, format);
    const int wanted = vsnprintf(text.at, text.left, format, arguments);
    va_end(arguments);
    if (wanted < 0) return;
    const size_t written = static_cast<size_t>(wanted) < text.left ? static_cast<size_t>(wanted) : text.left - 1;
    text.at += written;
    text.left -= written;
}

// Starts the message of an error; what follows is appended with `say`. The first error wins.
void begin_error(tg_status code) {
    run.code = code;
    say("kernel %s: ", run.launch->kernel);
}

void say_place(const Fibre* fibre) {
    say("block %u thread %u (warp %u lane %u)", fibre->block->index, fibre->thread, fibre->thread / LANES,
        fibre->thread % LANES);
}

bool waits_alike(const Fibre* a, const Fibre* b) {
    if (a->state != b->state) return false;
    if (a->state == State::InCollective) return a->kind == b->kind && a->mask == b->mask && a->line == b->line;
    return a->state != State::InBarrier || a->line == b->line;
}

// Says for every warp which lanes do what.
void say_block(const Block* block) {
    const unsigned threads = run.launch->threads;
    for (unsigned first = 0; first < threads; first += LANES) {
        const unsigned lanes = threads - first < LANES ? threads - first : LANES;
        const Fibre* const fibres = block->fibres + first;
        unsigned told = 0;
        for (unsigned lane = 0; lane < lanes; ++lane) {
            if (told >> lane & 1) continue;
            unsigned alike = 0;
            for (unsigned other = lane; other < lanes; ++other)
                if (waits_alike(fibres + lane, fibres + other)) alike |= 1u << other;
            told |= alike;
            say("\n  block %u warp %u lanes 0x%08x ", block->index, first / LANES, alike);
            switch (fibres[lane].state) {
                case State::Runnable: say("can run"); break;
                case State::InBarrier:
                    say("wait in %s at line %d", BARRIER_NAMES[block->barrier], fibres[lane].line);
                    break;
                case State::InCollective:
                    say("wait in %s with mask 0x%08x at line %d", COLLECTIVE_NAMES[fibres[lane].kind],
                        fibres[lane].mask, fibres[lane].line);
                    break;
                case State::Exited: say("have left the kernel"); break;
            }
        }
    }
}

// ---- switching stacks

#ifndef TG_UCONTEXT
extern "C" void tg_switch_stack(void** saved, void* next);

#if defined(__x86_64__)
// Callee-saved registers only. The floating-point control words are not a kernel's to change.
asm(R"(
    .text
    .globl tg_switch_stack
    .hidden tg_switch_stack
    .type tg_switch_stack, @function
tg_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size tg_switch_stack, . - tg_switch_stack
)");
#else
asm(R"(
    .text
    .globl tg_switch_stack
    .hidden tg_switch_stack
    .type tg_switch_stack, %function
tg_switch_stack:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size tg_switch_stack, . - tg_switch_stack
)");
#endif
#endif

void fibre_body();

// Called first on the new stack after each switch.
void after_switch() {
#ifdef TG_ASAN
    const void* from = nullptr;
    size_t from_bytes = 0;
    __sanitizer_finish_switch_fiber(run.current->fake_stack, &from, &from_bytes);
    if (run.main_stack == nullptr) { // the first switch of a launch comes from the scheduler
        run.main_stack = from;
        run.main_stack_bytes = from_bytes;
    }
#endif
}

void prepare_stack(Fibre* fibre) {
#ifdef TG_UCONTEXT
    getcontext(&fibre->context);
    fibre->context.uc_stack.ss_sp = fibre->stack;
    fibre->context.uc_stack.ss_size = STACK_BYTES;
    fibre->context.uc_link = nullptr;
    makecontext(&fibre->context, fibre_body, 0);
#elif defined(__x86_64__)
    // six registers, the address to return to, and a null return address of fibre_body's own
    uint64_t* const top = reinterpret_cast<uint64_t*>(fibre->stack + STACK_BYTES) - 8;
    memset(top, 0, 8 * sizeof(uint64_t));
    top[6] = reinterpret_cast<uint64_t>(&fibre_body);
    fibre->stack_pointer = top;
#else
    uint64_t* const top = reinterpret_cast<uint64_t*>(fibre->stack + STACK_BYTES) - 20;
    memset(top, 0, 20 * sizeof(uint64_t));
    top[11] = reinterpret_cast<uint64_t>(&fibre_body); // x30
    fibre->stack_pointer = top;
#endif
    fibre->fake_stack = nullptr;
}

// `last` says that the fibre on this stack never runs again.
void switch_stack(Fibre* from, Fibre* to, [[maybe_unused]] bool last) {
#ifdef TG_ASAN
    const bool to_main = to == &run.main;
    __sanitizer_start_switch_fiber(last ? nullptr : &from->fake_stack, to_main ? run.main_stack : to->stack,
                                   to_main ? run.main_stack_bytes : STACK_BYTES);
#endif
#ifdef TG_UCONTEXT
    swapcontext(&from->context, &to->context);
#else
    tg_switch_stack(&from->stack_pointer, to->stack_pointer);
#endif
    after_switch();
}

bool reserve_stacks(size_t count) {
    if (stacks.count < count) {
        if (stacks.memory != nullptr) munmap(stacks.memory, stacks.count * STACK_STRIDE);
        stacks.count = 0;
        stacks.canaries_set = false;
        void* const memory = mmap(nullptr, count * STACK_STRIDE, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        stacks.memory = memory == MAP_FAILED ? nullptr : static_cast<unsigned char*>(memory);
        if (stacks.memory == nullptr) return false;
        stacks.count = count;
    }
#ifdef TG_ASAN
    __asan_unpoison_memory_region(stacks.memory, stacks.count * STACK_STRIDE);
#endif
    if (stacks.canaries_set) return true;
    for (size_t i = 0; i < stacks.count; ++i) {
        uint64_t* const canary = reinterpret_cast<uint64_t*>(stacks.memory + i * STACK_STRIDE);
        for (size_t word = 0; word < CANARY_BYTES / sizeof(uint64_t); ++word) canary[word] = STACK_CANARY;
    }
    stacks.canaries_set = true;
    return true;
}

__attribute__((destructor)) void free_stacks() {
    if (stacks.memory != nullptr) munmap(stacks.memory, stacks.count * STACK_STRIDE);
}

// Looks at the canary's uppermost word only, or at all of it.
__attribute__((no_sanitize("address"))) bool stack_is_sound(const Fibre* fibre, bool thorough) {
    const uint64_t* const canary = reinterpret_cast<const uint64_t*>(fibre->stack - CANARY_BYTES);
    constexpr size_t words = CANARY_BYTES / sizeof(uint64_t);
    for (size_t word = thorough ? 0 : words - 1; word < words; ++word)
        if (canary[word] != STACK_CANARY) return false;
    return true;
}

// ---- shared memory

struct TlsIndex { // of the ELF specification for thread-local storage
    size_t module, offset;
};
extern "C" void* __tls_get_addr(TlsIndex*);

struct Module {
    uintptr_t address; // of something in it
    size_t tls_id, tls_bytes;
};

int find_module(dl_phdr_info* info, size_t, void* data) {
    Module* const module = static_cast<Module*>(data);
    size_t tls_bytes = 0;
    bool ours = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = info->dlpi_phdr[i];
        if (segment.p_type == PT_TLS) tls_bytes = segment.p_memsz;
        if (segment.p_type == PT_LOAD && module->address - (info->dlpi_addr + segment.p_vaddr) < segment.p_memsz)
            ours = true;
    }
    if (!ours) return 0;
    module->tls_id = info->dlpi_tls_modid;
    module->tls_bytes = tls_bytes;
    return 1;
}

// The thread-local block of the calling thread. Its address is asked for in the way that compiled code asks: what
// `dl_iterate_phdr` says of it can be null while other threads load and unload libraries.
bool find_shared(const tg_launch* launch) {
    Module module = {reinterpret_cast<uintptr_t>(&run), 0, 0};
    dl_iterate_phdr(find_module, &module);
    if (module.tls_bytes == 0) return false;
    TlsIndex index = {module.tls_id, 0};
    run.static_begin = static_cast<unsigned char*>(__tls_get_addr(&index));
    run.static_end = run.static_begin + module.tls_bytes;
    run.shared = launch->shared;
    run.shared_end = launch->shared + launch->shared_capacity;
    return run.static_begin <= run.shared && run.shared_end <= run.static_end;
}

size_t saved_shared_bytes() {
    return static_cast<size_t>(run.shared - run.static_begin) + run.launch->shared_bytes +
           static_cast<size_t>(run.static_end - run.shared_end);
}

// Calls `copy(place, saved, bytes)` for the three parts of a block's shared memory.
template <class Copy>
void for_each_shared_part(unsigned char* saved, Copy copy) {
    const size_t before = static_cast<size_t>(run.shared - run.static_begin);
    copy(run.static_begin, saved, before);
    copy(run.shared, saved + before, static_cast<size_t>(run.launch->shared_bytes));
    copy(run.shared_end, saved + before + run.launch->shared_bytes,
         static_cast<size_t>(run.static_end - run.shared_end));
}

void change_block(Block* next) {
    if (run.block == next) return;
    if (run.block != nullptr)
        for_each_shared_part(run.block->saved_shared, [](unsigned char* place, unsigned char* saved, size_t bytes) {
            memcpy(saved, place, bytes);
        });
    for_each_shared_part(next->saved_shared, [](unsigned char* place, unsigned char* saved, size_t bytes) {
        memcpy(place, saved, bytes);
    });
    run.block = next;
    tg_block_index.x = next->index;
}

void fill_guard() {
    memset(run.shared + run.launch->shared_bytes, SHARED_GUARD,
                     run.launch->shared_capacity - run.launch->shared_bytes);
}

// Gives the offset of the first byte after the dynamic shared memory that was written, or the capacity.
size_t first_overrun() {
    const size_t capacity = run.launch->shared_capacity;
    size_t offset = run.launch->shared_bytes;
    const unsigned char* const guard = run.shared + offset;
    // All bytes are right if the first is and each equals the one before it.
    if (*guard == SHARED_GUARD && memcmp(guard, guard + 1, capacity - offset - 1) == 0) return capacity;
    while (run.shared[offset] == SHARED_GUARD) ++offset;
    return offset;
}

// ---- choosing who runs

void set_budget() {
    run.budget = run.burst == 1 ? 1 : 1 + run.random.below(2 * run.burst - 1);
    tg_yields_left = run.budget;
}

void make_runnable(Fibre* fibre) {
    Block* const block = fibre->block;
    fibre->state = State::Runnable;
    fibre->runnable_at = block->runnable_count;
    block->runnable[block->runnable_count++] = fibre;
}

void make_waiting(Fibre* fibre, State state) {
    Block* const block = fibre->block;
    Fibre* const last = block->runnable[--block->runnable_count];
    block->runnable[fibre->runnable_at] = last;
    last->runnable_at = fibre->runnable_at;
    fibre->state = state;
}

[[noreturn]] void leave_for_main() {
    Fibre* const from = run.current;
    run.current = &run.main;
    switch_stack(from, &run.main, true);
    __builtin_unreachable();
}

// Every live block has a runnable fibre, or its deadlock would have been reported.
Fibre* choose() {
    Block* block = run.block;
    if (run.live_count > 1 && run.random.below(run.block_stay) == 0)
        block = run.live[run.random.below(run.live_count)];
    return block->runnable[run.random.below(block->runnable_count)];
}

void switch_to(Fibre* next) {
    Fibre* const previous = run.current;
    ++run.switches;
    if (next == previous) return;
    change_block(next->block);
    tg_thread_index.x = next->thread;
    run.current = next;
    switch_stack(previous, next, false);
}

// Leaves the processor to whoever is chosen; the caller has already left the runnable ones if it waits.
void reschedule() {
    Fibre* const self = run.current;
    if (!stack_is_sound(self, false)) {
        begin_error(TG_STACK_OVERFLOW);
        say_place(self);
        say(" needs more than the %zu bytes of stack that a thread has", STACK_BYTES);
        leave_for_main();
    }
    run.yields += run.budget - tg_yields_left + 1;
    set_budget();
    if (self->block->runnable_count == 0) {
        begin_error(TG_DEADLOCK);
        say("deadlock: no thread of block %u can run", self->block->index);
        say_block(self->block);
        leave_for_main();
    }
    if (run.yields - run.yields_at_last_end > yields_max) {
        begin_error(TG_NO_PROGRESS);
        say("no block has finished in %llu yields: a wait that never ends?",
            static_cast<unsigned long long>(yields_max));
        for (unsigned i = 0; i < run.live_count; ++i) say_block(run.live[i]);
        leave_for_main();
    }
    switch_to(choose());
}

// ---- barriers

void release_barrier(Block* block) {
    const unsigned threads = run.launch->threads;
    uint64_t result = 0;
    switch (block->barrier) {
        case TG_BARRIER_OR: result = block->predicates != 0; break;
        case TG_BARRIER_AND: result = block->predicates == block->arrived; break;
        case TG_BARRIER_COUNT: result = block->predicates; break;
        default: break;
    }
    for (unsigned thread = 0; thread < threads; ++thread) {
        Fibre* const fibre = block->fibres + thread;
        if (fibre->state != State::InBarrier) continue;
        fibre->result = result;
        make_runnable(fibre);
    }
    block->arrived = 0;
    block->predicates = 0;
}

// ---- collectives

// The lane that a shuffle reads, as PTX `shfl` computes it.
unsigned shuffle_source(const Fibre* fibre, unsigned lane) {
    const unsigned width = fibre->width;
    const unsigned first = lane & ~(width - 1);
    const unsigned operand = fibre->argument & (LANES - 1);
    switch (fibre->kind) {
        case TG_SHFL_UP: return lane >= first + operand ? lane - operand : lane;
        case TG_SHFL_DOWN: return lane + operand < first + width ? lane + operand : lane;
        case TG_SHFL_XOR: return (lane ^ operand) < first + width ? lane ^ operand : lane;
        default: return first | (operand & (width - 1));
    }
}

unsigned reduce(tg_collective kind, unsigned a, unsigned b) {
    const int signed_a = static_cast<int>(a), signed_b = static_cast<int>(b);
    switch (kind) {
        case TG_REDUCE_ADD: return a + b;
        case TG_REDUCE_AND: return a & b;
        case TG_REDUCE_OR: return a | b;
        case TG_REDUCE_XOR: return a ^ b;
        case TG_REDUCE_MIN_UNSIGNED: return a < b ? a : b;
        case TG_REDUCE_MAX_UNSIGNED: return a > b ? a : b;
        case TG_REDUCE_MIN_SIGNED: return signed_a < signed_b ? a : b;
        default: return signed_a > signed_b ? a : b;
    }
}

// Stores in each lane of the mask what its call gives back. `lanes` are the fibres of the warp.
void compute_results(Fibre* lanes, tg_collective kind, unsigned mask) {
    const unsigned lowest = static_cast<unsigned>(__builtin_ctz(mask));
    uint64_t shared_result = 0;
    switch (kind) {
        case TG_SHFL_IDX:
        case TG_SHFL_UP:
        case TG_SHFL_DOWN:
        case TG_SHFL_XOR:
            for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
                const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
                const unsigned source = shuffle_source(lanes + lane, lane);
                // A lane outside of the mask has no value to give: CUDA leaves it undefined.
                lanes[lane].result = mask >> source & 1 ? lanes[source].value : run.random.next();
            }
            return;
        case TG_MATCH_ANY:
            for (unsigned open = mask; open != 0;) {
                const uint64_t value = lanes[__builtin_ctz(open)].value;
                unsigned equal = 0;
                for (unsigned rest = open; rest != 0; rest &= rest - 1)
                    if (lanes[__builtin_ctz(rest)].value == value) equal |= rest & -rest;
                for (unsigned rest = equal; rest != 0; rest &= rest - 1) lanes[__builtin_ctz(rest)].result = equal;
                open &= ~equal;
            }
            return;
        case TG_MATCH_ALL:
            shared_result = mask;
            for (unsigned rest = mask; rest != 0; rest &= rest - 1)
                if (lanes[__builtin_ctz(rest)].value != lanes[lowest].value) shared_result = 0;
            break;
        case TG_SYNCWARP: break;
        case TG_BALLOT:
        case TG_ANY:
        case TG_ALL: {
            unsigned ballot = 0;
            for (unsigned rest = mask; rest != 0; rest &= rest - 1)
                if (lanes[__builtin_ctz(rest)].value != 0) ballot |= rest & -rest;
            shared_result = kind == TG_BALLOT ? ballot : kind == TG_ANY ? ballot != 0 : ballot == mask;
            break;
        }
        default: {
            unsigned total = static_cast<unsigned>(lanes[lowest].value);
            for (unsigned rest = mask & (mask - 1); rest != 0; rest &= rest - 1)
                total = reduce(kind, total, static_cast<unsigned>(lanes[__builtin_ctz(rest)].value));
            shared_result = total;
        }
    }
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) lanes[__builtin_ctz(rest)].result = shared_result;
}

[[noreturn]] void fail_collective(const Fibre* self, const char* reason) {
    begin_error(TG_COLLECTIVE_MISMATCH);
    say_place(self);
    say(" in %s with mask 0x%08x at line %d: %s", COLLECTIVE_NAMES[self->kind], self->mask, self->line, reason);
    say_block(self->block);
    leave_for_main();
}

// Gives the lanes that already wait in the very collective in which `self` has arrived. A lane that waits in another
// one contradicts it only when each names the other: otherwise that one can complete first.
unsigned agreeing_lanes(const Fibre* self, Warp* warp, const Fibre* lanes, unsigned lane) {
    if (warp->waiting == 0) {
        warp->uniform = true;
        warp->kind = self->kind;
        warp->mask = self->mask;
        warp->bytes = self->bytes;
        return 0;
    }
    if (warp->uniform && warp->kind == self->kind && warp->mask == self->mask && warp->bytes == self->bytes)
        return warp->waiting;
    warp->uniform = false;
    unsigned agreeing = 0;
    for (unsigned rest = warp->waiting & self->mask; rest != 0; rest &= rest - 1) {
        const Fibre& other = lanes[__builtin_ctz(rest)];
        if (other.mask == self->mask && other.kind == self->kind && other.bytes == self->bytes)
            agreeing |= rest & -rest;
        else if (other.mask >> lane & 1)
            fail_collective(self, "a lane that takes part waits in a different collective or with a different mask");
    }
    return agreeing;
}

// ---- the life of a fibre

void fibre_body() {
    after_switch();
    run.launch->call(run.params);

    Fibre* const self = run.current;
    Block* const block = self->block;
    if (!stack_is_sound(self, true)) {
        begin_error(TG_STACK_OVERFLOW);
        say_place(self);
        say(" needed more than the %zu bytes of stack that a thread has", STACK_BYTES);
        leave_for_main();
    }
    make_waiting(self, State::Exited);
    --block->live;
    Warp& warp = block->warps[self->thread / LANES];
    const unsigned lane = self->thread % LANES;
    warp.exited |= 1u << lane;
    for (unsigned rest = warp.waiting; rest != 0; rest &= rest - 1) {
        const Fibre& other = block->fibres[self->thread - lane + static_cast<unsigned>(__builtin_ctz(rest))];
        if (!(other.mask >> lane & 1)) continue;
        begin_error(TG_COLLECTIVE_MISMATCH);
        say_place(self);
        say(" leaves the kernel while other lanes wait for it");
        say_block(block);
        leave_for_main();
    }
    if (block->live == 0) {
        run.finished = block;
        leave_for_main();
    }
    if (block->arrived == block->live) release_barrier(block);
    reschedule();
    __builtin_unreachable();
}

void start_block(Block* block, unsigned index) {
    const unsigned threads = run.launch->threads;
    block->index = index;
    block->live = threads;
    block->runnable_count = 0;
    block->arrived = 0;
    block->predicates = 0;
    for (unsigned first = 0; first < threads; first += LANES) {
        Warp* const warp = block->warps + first / LANES;
        *warp = Warp{};
        if (threads - first < LANES) warp->missing = ~0u << (threads - first);
    }
    for (unsigned thread = 0; thread < threads; ++thread) {
        Fibre* const fibre = block->fibres + thread;
#ifdef TG_ASAN
        __asan_unpoison_memory_region(fibre->stack, STACK_BYTES);
#endif
        fibre->block = block;
        fibre->thread = thread;
        fibre->activemask_line = 0;
        prepare_stack(fibre);
        make_runnable(fibre);
    }
    const bool in_place = run.block == block;
    for_each_shared_part(block->saved_shared, [=](unsigned char* place, unsigned char* saved, size_t bytes) {
        memset(in_place ? place : saved, SHARED_GARBAGE, bytes);
    });
    if (in_place) tg_block_index.x = index;
}

bool check_guard(const Block* ended) {
    const size_t offset = first_overrun();
    if (offset == run.launch->shared_capacity) return true;
    begin_error(TG_SHARED_OVERRUN);
    say("block %u%s wrote byte %zu of dynamic shared memory, which has %u bytes", ended->index,
        run.launch->resident_blocks > 1 ? ", or one resident with it," : "", offset, run.launch->shared_bytes);
    return false;
}

void run_blocks(Block* blocks, unsigned resident, unsigned* order) {
    const unsigned count = run.launch->blocks;
    for (unsigned i = 0; i < count; ++i) { // Fisher and Yates
        const unsigned other = run.random.below(i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    unsigned started = 0;
    for (; started < resident; ++started) {
        run.live[started] = blocks + started;
        start_block(blocks + started, order[started]);
    }
    run.live_count = resident;
    set_budget();
    while (run.live_count != 0) {
        Block* const next = run.live[run.random.below(run.live_count)];
        switch_to(next->runnable[run.random.below(next->runnable_count)]);
        if (run.code != TG_OK || !check_guard(run.finished)) return;
        run.yields_at_last_end = run.yields;
        if (started < count) {
            start_block(run.finished, order[started++]);
            continue;
        }
        unsigned position = 0;
        while (run.live[position] != run.finished) ++position;
        run.live[position] = run.live[--run.live_count];
    }
}

// Gives memory at a multiple of 64 that `free` takes back, or null.
void* allocate(size_t bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, bytes != 0 ? bytes : 1) != 0) return nullptr;
    memset(memory, 0, bytes);
    return memory;
}

// All that a launch allocates, in one piece.
int run_with_memory(unsigned resident) {
    const tg_launch* const launch = run.launch;
    const size_t threads = launch->threads;
    const size_t warps = (threads + LANES - 1) / LANES;
    const size_t saved = saved_shared_bytes();
    Block* const blocks = static_cast<Block*>(allocate(resident * sizeof(Block)));
    Fibre* const fibres = static_cast<Fibre*>(allocate(resident * threads * sizeof(Fibre)));
    Fibre** const runnable = static_cast<Fibre**>(allocate(resident * threads * sizeof(Fibre*)));
    Warp* const warp_memory = static_cast<Warp*>(allocate(resident * warps * sizeof(Warp)));
    unsigned char* const shared = static_cast<unsigned char*>(allocate(resident * saved));
    unsigned* const order = static_cast<unsigned*>(allocate(launch->blocks * sizeof(unsigned)));
    run.live = static_cast<Block**>(allocate(resident * sizeof(Block*)));
    run.params = static_cast<unsigned char*>(allocate(launch->params_bytes));
    if (blocks && fibres && runnable && warp_memory && shared && order && run.live && run.params &&
        reserve_stacks(resident * threads)) {
        memcpy(run.params, launch->params, launch->params_bytes);
        for (size_t i = 0; i < resident; ++i) {
            blocks[i].fibres = fibres + i * threads;
            blocks[i].runnable = runnable + i * threads;
            blocks[i].warps = warp_memory + i * warps;
            blocks[i].saved_shared = shared + i * saved;
        }
        for (size_t i = 0; i < resident * threads; ++i)
            fibres[i].stack = stacks.memory + i * STACK_STRIDE + CANARY_BYTES;
        fill_guard();
        run_blocks(blocks, resident, order);
        if (run.code != TG_OK) stacks.canaries_set = false;
    } else {
        begin_error(TG_BAD_LAUNCH);
        say("not enough memory for %u resident blocks of %u threads", resident, launch->threads);
    }
    free(blocks);
    free(fibres);
    free(runnable);
    free(warp_memory);
    free(shared);
    free(order);
    free(run.live);
    free(run.params);
    return run.code;
}

int run_launch(const tg_launch* launch) {
    run = Run{};
    run.launch = launch;
    run.current = &run.main;
    text = Text{launch->message, launch->message != nullptr ? static_cast<size_t>(launch->message_bytes) : 0};
    if (text.left != 0) text.at[0] = '\0';

    const unsigned shared_max = static_cast<unsigned>(launch->shared_capacity) - TG_SHARED_GUARD_BYTES;
    const char* wrong = nullptr;
    if (launch->params_bytes != launch->params_bytes_expected || launch->params == nullptr)
        wrong = "params_bytes is not the size of the parameter struct, or params is null";
    else if (launch->blocks == 0) wrong = "blocks must not be 0";
    else if (launch->threads == 0 || launch->threads > THREADS_MAX) wrong = "threads must be 1 to 1024";
    else if (launch->shared_bytes > shared_max) wrong = "shared_bytes is more than a block may have";
    else if (launch->resident_blocks == 0 || launch->resident_blocks > RESIDENT_BLOCKS_MAX)
        wrong = "resident_blocks must be 1 to 64";
    else if (!find_shared(launch)) wrong = "the thread-local memory of this shared object was not found";
    if (wrong != nullptr) {
        begin_error(TG_BAD_LAUNCH);
        say("%s (params_bytes %llu of %llu, blocks %u, threads %u, shared_bytes %u of %u, resident_blocks %u)", wrong,
            launch->params_bytes, launch->params_bytes_expected, launch->blocks, launch->threads,
            launch->shared_bytes, shared_max, launch->resident_blocks);
        return run.code;
    }

    run.random.state = Random::mix(launch->seed + 0x9e3779b97f4a7c15ULL);
    constexpr unsigned bursts[] = {1, 1, 4, 32};
    constexpr unsigned stays[] = {4, 16, 64};
    run.burst = bursts[run.random.below(4)];
    run.block_stay = stays[run.random.below(3)];
    tg_thread_index = tg_block_index = tg_index{0, 0, 0};
    tg_block_size = tg_index{launch->threads, 1, 1};
    tg_grid_size = tg_index{launch->blocks, 1, 1};
    return run_with_memory(launch->resident_blocks < launch->blocks ? launch->resident_blocks : launch->blocks);
}

} // namespace

// ---- what shim.hpp declares

int tg_shim_run(const tg_launch* launch) {
    pthread_mutex_lock(&run_lock);
    const int code = run_launch(launch);
    pthread_mutex_unlock(&run_lock);
    return code;
}

void tg_shim_set_yields_max(unsigned long long yields) {
    pthread_mutex_lock(&run_lock);
    yields_max = yields;
    pthread_mutex_unlock(&run_lock);
}

void tg_shim_switch() { reschedule(); }

int tg_shim_barrier(tg_barrier kind, int predicate, int line) {
    Fibre* const self = run.current;
    Block* const block = self->block;
    if (block->arrived != 0 && block->barrier != kind) {
        begin_error(TG_BARRIER_MISMATCH);
        say_place(self);
        say(" is in %s at line %d while others wait in %s at line %d", BARRIER_NAMES[kind], line,
            BARRIER_NAMES[block->barrier], block->barrier_line);
        leave_for_main();
    }
    block->barrier = kind;
    block->barrier_line = line;
    block->predicates += predicate != 0;
    ++block->arrived;
    self->line = line;
    make_waiting(self, State::InBarrier);
    if (block->arrived == block->live) release_barrier(block);
    reschedule();
    return static_cast<int>(self->result);
}

unsigned long long tg_shim_collective(tg_collective kind, unsigned mask, unsigned long long value, unsigned bytes,
                                      unsigned argument, unsigned width, int line) {
    Fibre* const self = run.current;
    Block* const block = self->block;
    const unsigned lane = self->thread % LANES;
    Fibre* const lanes = self - lane;
    Warp* const warp = block->warps + self->thread / LANES;
    self->kind = kind;
    self->mask = mask;
    self->value = value;
    self->bytes = bytes;
    self->argument = argument;
    self->width = width;
    self->line = line;

    if (!(mask >> lane & 1)) fail_collective(self, "the mask does not name the calling lane");
    if (width == 0 || width > LANES || (width & (width - 1)) != 0)
        fail_collective(self, "the width is not a power of two up to 32");
    if ((mask & warp->missing) != 0) fail_collective(self, "the mask names lanes that the block does not have");
    if ((mask & warp->exited) != 0) fail_collective(self, "the mask names a lane that has left the kernel");
    const unsigned arrived = agreeing_lanes(self, warp, lanes, lane) | 1u << lane;

    if (arrived != mask) {
        warp->waiting |= 1u << lane;
        make_waiting(self, State::InCollective);
    } else {
        compute_results(lanes, kind, mask);
        for (unsigned rest = mask & ~(1u << lane); rest != 0; rest &= rest - 1)
            make_runnable(lanes + __builtin_ctz(rest));
        warp->waiting &= ~mask;
    }
    reschedule();
    return self->result;
}

// CUDA promises only that the lanes of the mask run together. Here a lane waits for a random while and then takes all
// lanes of its warp that wait on the same line, which may be itself alone; each of them gets the same mask.
unsigned tg_shim_activemask(int line) {
    Fibre* const self = run.current;
    const unsigned lane = self->thread % LANES;
    Fibre* const lanes = self - lane;
    self->activemask = 0;
    self->activemask_line = line;
    for (unsigned patience = run.random.below(4) * LANES; patience != 0 && self->activemask == 0; --patience)
        reschedule();
    if (self->activemask != 0) return self->activemask;

    const unsigned present = run.launch->threads - (self->thread - lane);
    unsigned together = 0;
    for (unsigned other = 0; other < LANES && other < present; ++other)
        if (lanes[other].activemask_line == line) together |= 1u << other;
    for (unsigned rest = together; rest != 0; rest &= rest - 1) {
        lanes[__builtin_ctz(rest)].activemask = together;
        lanes[__builtin_ctz(rest)].activemask_line = 0;
    }
    return together;
}

unsigned long long tg_shim_clock() { return run.switches; }

void tg_shim_trap(int line) {
    begin_error(TG_TRAP);
    say_place(run.current);
    say(" called __trap() at line %d", line);
    leave_for_main();
}

void tg_shim_false_assumption(const char* condition, int line) {
    begin_error(TG_FALSE_ASSUMPTION);
    say_place(run.current);
    say(" broke the assumption %s at line %d", condition, line);
    leave_for_main();
}

void tg_shim_misaligned_atomic(const volatile void* address, unsigned bytes) {
    begin_error(TG_MISALIGNED_ATOMIC);
    say_place(run.current);
    say(" used an atomic of %u bytes on address 0x%llx", bytes,
        static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(address)));
    leave_for_main();
}
