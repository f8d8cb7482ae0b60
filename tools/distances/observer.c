/* castell's observer of memory accesses, a tool for Valgrind: which blocks of memory a program touches, in their order.
 *
 * Copyright (C) 2026 the castell developers
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public License as
 * published by the Free Software Foundation; either version 2 of the License, or (at your option) any later version. It is
 * distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY. See the file COPYING.
 *
 * It computes nothing: records go through a named pipe to whoever started it. README.md has their format.
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "pub_tool_basics.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_wordfm.h"
#include <immintrin.h>

/* Of Valgrind's core, in no header for tools: a descriptor out of the program's reach, and the program's name. */
extern Int VG_(safe_fd)(Int descriptor);
extern const HChar *VG_(args_the_exename);

/* ------------------------------------------------------------------------------------------------------- Records */

enum message_kind { MESSAGE_START = 1, MESSAGE_RECORDS = 2, MESSAGE_FUNCTION = 3, MESSAGE_END = 4 };

/* A message goes in one write, so that those of several processes do not mix. */
#define MESSAGE_BYTES_MAX 4096 /* PIPE_BUF */

struct header {
    UInt kind;
    UInt pid;
    UInt payload_bytes;
    UInt process; /* counts programs that one process has executed */
    ULong accesses; /* so far */
};

/* Records as they are sent: blocks, or with a tag in their upper four bits what is none. */
#define TAG_THREAD (1ULL << 60)
#define TAG_FUNCTION (2ULL << 60)

/* Accesses as instrumented code writes them, which is as little as possible: 256 times the address, and the bytes less one, at most a
 * block's. What is no access has one of these in place of the bytes. */
#define NO_ACCESS 0x80
#define IS_THREAD 0x80
#define IS_FUNCTION 0x81
#define RECORDS ((MESSAGE_BYTES_MAX - sizeof(struct header)) / sizeof(ULong)) /* of a message */
#define ENTRIES (32 * RECORDS)

static ULong entries[ENTRIES];
/* Written by instrumented code: behind the last entry, and the first byte of the block touched last, none at first. */
#define NO_BLOCK (1ULL << 63)
static ULong *position = entries;
static ULong last_base = NO_BLOCK;
static ULong accesses;
static ULong stack_low, stack_bytes;

static Int channel = -1;
static UInt process;
static ThreadId thread;

/* ------------------------------------------------------------------------------------------------------- Options */

static const HChar *option_channel;
static Int option_block_shift = 6;
static Bool option_ignore_stack;
static Bool option_functions;
/* A block is in the sample if the lower half of its hash is at most this. */
static Long option_threshold = 0xffffffff;

static Bool take_option(const HChar *argument) {
    if (VG_STR_CLO(argument, "--channel", option_channel)) {
    } else if (VG_BINT_CLO(argument, "--block-shift", option_block_shift, 0, 20)) {
    } else if (VG_BOOL_CLO(argument, "--ignore-stack", option_ignore_stack)) {
    } else if (VG_BOOL_CLO(argument, "--functions", option_functions)) {
    } else if (VG_BINT_CLO(argument, "--threshold", option_threshold, 0, 0xffffffff)) {
    } else {
        return False;
    }
    return True;
}

static void print_usage(void) {
    VG_(printf)("    --channel=<path>           named pipe that records are written to\n"
                "    --block-shift=<n>          blocks of 2^n bytes [6]\n"
                "    --ignore-stack=no|yes      leave out what lies in the thread's stack [no]\n"
                "    --functions=no|yes         say which function touches [no]\n"
                "    --threshold=<n>            blocks whose hash is at most n of 2^32 - 1 [all]\n");
}

static void print_debug_usage(void) {
}

/* ------------------------------------------------------------------------------------------------------- Sending */

/* The count that messages carry: records that belong to it have been sent, or are in the message. */
static ULong accesses_told;

static void send(UInt kind, const void *payload, UInt bytes) {
    static union {
        struct header header;
        HChar bytes[MESSAGE_BYTES_MAX];
    } message;
    if (channel < 0) {
        return;
    }
    tl_assert(sizeof message.header + bytes <= sizeof message);
    message.header.kind = kind;
    message.header.pid = VG_(getpid)();
    message.header.payload_bytes = bytes;
    message.header.process = process;
    message.header.accesses = accesses_told;
    VG_(memcpy)(message.bytes + sizeof message.header, payload, bytes);
    Int length = sizeof message.header + bytes, written;
    do {
        written = VG_(write)(channel, message.bytes, length);
    } while (written == -VKI_EINTR);
    if (written != length) {
        /* Nobody listens any more; the program goes on unobserved. */
        channel = -1;
    }
}

/* What goes with the next message. */
static ULong records[RECORDS];
static UInt records_used;
/* Accesses that crossed into another block count twice. */
static ULong crossed;
static ULong last_sent = NO_BLOCK;

static void send_records(void) {
    if (records_used > 0) {
        send(MESSAGE_RECORDS, records, records_used * sizeof(ULong));
        records_used = 0;
    }
}

/* A full message waits for the next record: the last one before a count is told has to go with it. */
static inline void add_record(ULong value) {
    if (records_used == RECORDS) {
        send_records();
    }
    records[records_used++] = value;
}

/* Murmur3's finishing step for 32 bits, as the reader of the records has it. */
#define FOLD 0x9e3779b1U
#define MIX_1 0x85ebca6bU
#define MIX_2 0xc2b2ae35U

static UInt hash(ULong block) {
    UInt mixed = (UInt)block ^ (UInt)(block >> 32) * FOLD;
    mixed = (mixed ^ mixed >> 16) * MIX_1;
    mixed = (mixed ^ mixed >> 13) * MIX_2;
    return mixed ^ mixed >> 16;
}

static void touch(ULong block) {
    if (block != last_sent && (option_threshold == 0xffffffff || hash(block) <= option_threshold)) {
        add_record(block);
    }
    last_sent = block;
}

static void take_entry(ULong entry) {
    UInt bytes = entry & 0xff;
    if (bytes >= NO_ACCESS) {
        if (bytes == IS_THREAD) {
            last_sent = NO_BLOCK;
        }
        add_record(entry >> 8 | (bytes == IS_THREAD ? TAG_THREAD : TAG_FUNCTION));
        return;
    }
    ULong first = entry >> 8 >> option_block_shift, last = ((entry >> 8) + bytes) >> option_block_shift;
    touch(first);
    if (last != first) {
        crossed++;
        touch(last);
    }
}

static Bool has_avx2;

/* Passes over entries, eight at a time, as long as these are accesses to one block each that is not in the sample. */
__attribute__((target("avx2"))) static const ULong *pass_over(const ULong *at, const ULong *end) {
    const __m128i to_block = _mm_cvtsi32_si128(8 + option_block_shift);
    const __m256i within = _mm256_set1_epi64x((1LL << option_block_shift) - 1), byte = _mm256_set1_epi64x(0xff);
    const __m256i threshold = _mm256_set1_epi32(option_threshold);
    const __m256i fold = _mm256_set1_epi32(FOLD), mix_1 = _mm256_set1_epi32(MIX_1), mix_2 = _mm256_set1_epi32(MIX_2);
    const ULong *from = at;
    for (; at + 8 <= end; at += 8) {
        __m256i entry[2], block[2], odd[2];
        for (UInt half = 0; half < 2; half++) {
            entry[half] = _mm256_loadu_si256((const __m256i *)(at + 4 * half));
            block[half] = _mm256_srl_epi64(entry[half], to_block);
            __m256i offset = _mm256_and_si256(_mm256_srli_epi64(entry[half], 8), within);
            __m256i end_of = _mm256_add_epi64(offset, _mm256_and_si256(entry[half], byte));
            /* The upper bit says that it crosses, or is no access. */
            odd[half] = _mm256_or_si256(_mm256_sub_epi64(within, end_of), _mm256_slli_epi64(entry[half], 56));
        }
        __m256 first = _mm256_castsi256_ps(block[0]), second = _mm256_castsi256_ps(block[1]);
        __m256i low = _mm256_castps_si256(_mm256_shuffle_ps(first, second, 0x88));
        __m256i high = _mm256_castps_si256(_mm256_shuffle_ps(first, second, 0xdd));
        __m256i mixed = _mm256_xor_si256(low, _mm256_mullo_epi32(high, fold));
        mixed = _mm256_mullo_epi32(_mm256_xor_si256(mixed, _mm256_srli_epi32(mixed, 16)), mix_1);
        mixed = _mm256_mullo_epi32(_mm256_xor_si256(mixed, _mm256_srli_epi32(mixed, 13)), mix_2);
        mixed = _mm256_xor_si256(mixed, _mm256_srli_epi32(mixed, 16));
        __m256i sampled = _mm256_cmpeq_epi32(_mm256_min_epu32(mixed, threshold), mixed);
        Int odd_ones = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_or_si256(odd[0], odd[1])));
        if ((odd_ones | _mm256_movemask_epi8(sampled)) != 0) {
            break;
        }
    }
    if (at != from) {
        last_sent = at[-1] >> 8 >> option_block_shift;
    }
    return at;
}

static void take_all_entries(void) {
    for (const ULong *at = entries; at < position; at++) {
        ULong entry = *at, address = entry >> 8, bytes = entry & 0xff;
        ULong block = address >> option_block_shift;
        if (bytes >= NO_ACCESS || (address + bytes) >> option_block_shift != block) {
            take_entry(entry);
        } else {
            /* Another one than the last, or it would not have been written. */
            last_sent = block;
            add_record(block);
        }
    }
}

static void take_sampled_entries(void) {
    for (const ULong *at = entries; at < position;) {
        at = has_avx2 ? pass_over(at, position) : at;
        for (const ULong *stop = position - at < 8 ? position : at + 8; at < stop; at++) {
            take_entry(*at);
        }
    }
}

static void take_entries(void) {
    if (option_threshold == 0xffffffff) {
        take_all_entries();
    } else {
        take_sampled_entries();
    }
    position = entries;
    accesses_told = accesses + crossed;
    send_records();
}

static void send_start(void) {
    HChar payload[512];
    UInt parent = VG_(getppid)();
    VG_(memcpy)(payload, &parent, sizeof parent);
    VG_(strncpy)(payload + sizeof parent, VG_(args_the_exename), sizeof payload - sizeof parent - 1);
    payload[sizeof payload - 1] = 0;
    send(MESSAGE_START, payload, sizeof parent + VG_(strlen)(payload + sizeof parent));
}

static void send_end(void) {
    take_entries();
    send(MESSAGE_END, "", 0);
}

/* ----------------------------------------------------------------------------------------------------- Functions */

static WordFM *function_ids;

static Word compare_names(UWord a, UWord b) {
    return VG_(strcmp)((const HChar *)a, (const HChar *)b);
}

/* A number for the function at an address; new ones are told. */
static ULong function_id(Addr address) {
    const HChar *name;
    UWord key, id;
    if (!VG_(get_fnname)(VG_(current_DiEpoch)(), address, &name)) {
        name = "???";
    }
    if (VG_(lookupFM)(function_ids, &key, &id, (UWord)name)) {
        return id;
    }
    id = VG_(sizeFM)(function_ids) + 1;
    HChar *own = VG_(strdup)("castell.function", name);
    VG_(addToFM)(function_ids, (UWord)own, id);
    HChar payload[512];
    UInt bytes = VG_(strlen)(own) < 500 ? VG_(strlen)(own) : 500;
    ULong number = id;
    VG_(memcpy)(payload, &number, sizeof number);
    VG_(memcpy)(payload + sizeof number, own, bytes);
    send(MESSAGE_FUNCTION, payload, sizeof number + bytes);
    return id;
}

/* ------------------------------------------------------------------------------------------------- Instrumenting */

/* A superblock under way. Position, base of the last block and count live in temporaries between two places where it can be left. */
struct under_way {
    IRSB *out;
    Bool loaded;
    IRTemp position, last;
    IRTemp more; /* accesses that were not known before */
    ULong count;
    UInt entries;
};

static IRTemp keep(struct under_way *block, IRType type, IRExpr *expression) {
    IRTemp temporary = newIRTemp(block->out->tyenv, type);
    addStmtToIRSB(block->out, IRStmt_WrTmp(temporary, expression));
    return temporary;
}

static IRExpr *of(IRTemp temporary) {
    return IRExpr_RdTmp(temporary);
}

static IRExpr *number(ULong value) {
    return IRExpr_Const(IRConst_U64(value));
}

static IRTemp binary(struct under_way *block, IROp op, IRExpr *a, IRExpr *b) {
    return keep(block, typeOfIRExpr(block->out->tyenv, IRExpr_Binop(op, a, b)), IRExpr_Binop(op, a, b));
}

static IRTemp load(struct under_way *block, void *address) {
    return keep(block, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, mkIRExpr_HWord((HWord)address)));
}

static void store(struct under_way *block, void *address, IRExpr *value) {
    addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, mkIRExpr_HWord((HWord)address), value));
}

static IRTemp widened(struct under_way *block, IRTemp bit) {
    return keep(block, Ity_I64, IRExpr_Unop(Iop_1Uto64, of(bit)));
}

/* Before the superblock can be left. */
static void put_down(struct under_way *block) {
    if (!block->loaded) {
        return;
    }
    store(block, &position, of(block->position));
    store(block, &last_base, of(block->last));
    IRTemp sum = binary(block, Iop_Add64, of(load(block, &accesses)), number(block->count));
    if (block->more != IRTemp_INVALID) {
        sum = binary(block, Iop_Add64, of(sum), of(block->more));
    }
    store(block, &accesses, of(sum));
    block->loaded = False;
}

static void pick_up(struct under_way *block) {
    if (!block->loaded) {
        block->position = load(block, &position);
        block->last = load(block, &last_base);
        block->more = IRTemp_INVALID;
        block->count = 0;
        block->loaded = True;
    }
}

/* Writes an entry, and goes on behind it if `wanted` (0 or 1) is 1. */
static void write_entry(struct under_way *block, IRExpr *value, IRTemp wanted) {
    addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, of(block->position), value));
    IRTemp bytes = binary(block, Iop_Shl64, of(wanted), IRExpr_Const(IRConst_U8(3)));
    block->position = binary(block, Iop_Add64, of(block->position), of(bytes));
    block->entries++;
}

static void count_more(struct under_way *block, IRTemp number_of) {
    block->more = block->more == IRTemp_INVALID ? number_of : binary(block, Iop_Add64, of(block->more), of(number_of));
}

/* Whether an access counts, 0 or 1; invalid: it always does. */
static IRTemp whether(struct under_way *block, IRTemp address, IRTemp guard) {
    if (!option_ignore_stack) {
        return guard;
    }
    IRTemp offset = binary(block, Iop_Sub64, of(address), of(load(block, &stack_low)));
    IRTemp outside = widened(block, binary(block, Iop_CmpLE64U, of(load(block, &stack_bytes)), of(offset)));
    return guard == IRTemp_INVALID ? outside : binary(block, Iop_And64, of(outside), of(guard));
}

/* An access to `bytes` bytes, at most a block. It is written unless it lies within the block touched last. */
static void access_piece(struct under_way *block, IRTemp address, Int bytes, IRTemp guard) {
    const ULong block_bytes = 1ULL << option_block_shift;
    IRTemp counted = whether(block, address, guard);
    IRTemp offset = binary(block, Iop_Sub64, of(address), of(block->last));
    IRTemp is_within = binary(block, Iop_CmpLE64U, of(offset), number(block_bytes - bytes));
    IRTemp wanted = widened(block, keep(block, Ity_I1, IRExpr_Unop(Iop_Not1, of(is_within))));
    IRTemp end = bytes == 1 ? address : binary(block, Iop_Add64, of(address), number(bytes - 1));
    IRTemp base = binary(block, Iop_And64, of(end), number(~(block_bytes - 1)));
    if (counted == IRTemp_INVALID) {
        block->count++;
    } else {
        count_more(block, counted);
        wanted = binary(block, Iop_And64, of(wanted), of(counted));
        /* All bits where it counts: the last block stays where it does not. */
        IRTemp mask = binary(block, Iop_Sub64, number(0), of(counted));
        IRTemp change = binary(block, Iop_Xor64, of(base), of(block->last));
        change = binary(block, Iop_And64, of(change), of(mask));
        base = binary(block, Iop_Xor64, of(block->last), of(change));
    }
    block->last = base;
    IRTemp shifted = binary(block, Iop_Shl64, of(address), IRExpr_Const(IRConst_U8(8)));
    write_entry(block, of(binary(block, Iop_Or64, of(shifted), number(bytes - 1))), wanted);
}

static void access(struct under_way *block, IRExpr *address, Int bytes, IRExpr *guard) {
    pick_up(block);
    Int step = 1 << option_block_shift;
    IRTemp start = keep(block, Ity_I64, address);
    IRTemp is_done = guard == NULL ? IRTemp_INVALID : widened(block, keep(block, Ity_I1, guard));
    for (Int at = 0; at < bytes; at += step) {
        IRTemp place = at == 0 ? start : binary(block, Iop_Add64, of(start), number(at));
        access_piece(block, place, bytes - at < step ? bytes - at : step, is_done);
    }
}

/* Empties the buffer where the superblock might not fit. Returns the number to be replaced once it is known where that is. */
static IRConst *check_room(struct under_way *block) {
    IRTemp at = load(block, &position);
    IRExpr *limit = number(0);
    IRTemp is_full = binary(block, Iop_CmpLT64U, limit, of(at));
    IRDirty *call = unsafeIRDirty_0_N(0, "take_entries", VG_(fnptr_to_fnentry)(&take_entries), mkIRExprVec_0());
    call->guard = of(is_full);
    addStmtToIRSB(block->out, IRStmt_Dirty(call));
    return limit->Iex.Const.con;
}

static ULong function_now;

static void note_function(struct under_way *block, Addr address) {
    ULong id = function_id(address);
    pick_up(block);
    IRTemp is_other = binary(block, Iop_CmpNE64, of(load(block, &function_now)), number(id));
    write_entry(block, number(id << 8 | IS_FUNCTION), widened(block, is_other));
    store(block, &function_now, number(id));
}

static void note_statement(struct under_way *block, IRStmt *statement) {
    IRTypeEnv *types = block->out->tyenv;
    switch (statement->tag) {
    case Ist_WrTmp: {
        IRExpr *data = statement->Ist.WrTmp.data;
        if (data->tag == Iex_Load) {
            access(block, data->Iex.Load.addr, sizeofIRType(data->Iex.Load.ty), NULL);
        }
        break;
    }
    case Ist_Store:
        access(block, statement->Ist.Store.addr, sizeofIRType(typeOfIRExpr(types, statement->Ist.Store.data)), NULL);
        break;
    case Ist_StoreG: {
        IRStoreG *it = statement->Ist.StoreG.details;
        access(block, it->addr, sizeofIRType(typeOfIRExpr(types, it->data)), it->guard);
        break;
    }
    case Ist_LoadG: {
        IRLoadG *it = statement->Ist.LoadG.details;
        IRType result, loaded;
        typeOfIRLoadGOp(it->cvt, &result, &loaded);
        access(block, it->addr, sizeofIRType(loaded), it->guard);
        break;
    }
    case Ist_Dirty: {
        IRDirty *it = statement->Ist.Dirty.details;
        if (it->mFx != Ifx_None) {
            access(block, it->mAddr, it->mSize, it->guard);
        }
        break;
    }
    case Ist_CAS: {
        IRCAS *it = statement->Ist.CAS.details;
        Int bytes = sizeofIRType(typeOfIRExpr(types, it->dataLo)) * (it->dataHi == NULL ? 1 : 2);
        access(block, it->addr, bytes, NULL);
        break;
    }
    default:
        break;
    }
}

static IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout, const VexGuestExtents *extents,
                        const VexArchInfo *host, IRType guest_word, IRType host_word) {
    struct under_way block = {.out = deepCopyIRSBExceptStmts(in), .more = IRTemp_INVALID};
    tl_assert(guest_word == Ity_I64 && host_word == Ity_I64);
    Int at = 0;
    while (at < in->stmts_used && in->stmts[at]->tag != Ist_IMark) {
        addStmtToIRSB(block.out, in->stmts[at++]);
    }
    IRConst *limit = check_room(&block);
    if (option_functions) {
        note_function(&block, closure->nraddr);
    }
    for (; at < in->stmts_used; at++) {
        IRStmt *statement = in->stmts[at];
        if (statement->tag == Ist_Exit) {
            put_down(&block);
        }
        note_statement(&block, statement);
        addStmtToIRSB(block.out, statement);
    }
    put_down(&block);
    tl_assert(block.entries <= ENTRIES);
    limit->Ico.U64 = (HWord)(entries + ENTRIES - block.entries);
    return block.out;
}

/* ---------------------------------------------------------------------------------------------------- What happens */

/* Valgrind gives a thread's number to another one when it has ended; these are never given twice. */
static ULong *thread_numbers;
static ULong threads;

static void forget_thread(ThreadId parent, ThreadId child) {
    if (thread_numbers != NULL) {
        thread_numbers[child] = 0;
    }
    if (child == thread) {
        thread = 0;
    }
}

static void note_thread(ThreadId next, ULong superblocks) {
    if (next == thread) {
        return;
    }
    thread = next;
    stack_bytes = VG_(thread_get_stack_size)(next);
    stack_low = VG_(thread_get_stack_max)(next) + 1 - stack_bytes;
    /* What was counted so far is the last thread's. */
    take_entries();
    if (thread_numbers[next] == 0) {
        thread_numbers[next] = ++threads;
    }
    *position++ = thread_numbers[next] << 8 | IS_THREAD;
    /* The next access is written whatever the last thread touched. */
    last_base = NO_BLOCK;
}

static void begin_in_child(ThreadId caller) {
    position = entries;
    records_used = 0;
    accesses = accesses_told = crossed = 0;
    last_base = NO_BLOCK;
    thread = 0;
    function_now = 0;
    send_start();
}

/* Whatever a process has not sent is gone once it executes another program. */
static void before_call(ThreadId caller, UInt call, UWord *arguments, UInt count) {
    if (call == __NR_execve || call == __NR_execveat) {
        take_entries();
    }
}

static void after_call(ThreadId caller, UInt call, UWord *arguments, UInt count, SysRes result) {
}

static void begin(void) {
    if (option_channel == NULL) {
        VG_(fmsg_bad_option)("--channel", "the named pipe is missing: `castell distances` starts this tool\n");
    }
    SysRes opened = VG_(open)(option_channel, VKI_O_WRONLY, 0);
    if (sr_isError(opened)) {
        VG_(fmsg)("the pipe %s cannot be opened (error %lu)\n", option_channel, sr_Err(opened));
        VG_(exit)(1);
    }
    channel = VG_(safe_fd)(sr_Res(opened));
    if (option_functions) {
        /* A superblock begins where a function does. */
        VG_(clo_vex_control).guest_chase = False;
    }
    VexArch arch;
    VexArchInfo host;
    VG_(machine_get_VexArchInfo)(&arch, &host);
    has_avx2 = (host.hwcaps & VEX_HWCAPS_AMD64_AVX2) != 0;
    process = VG_(read_millisecond_timer)() | 1;
    thread_numbers = VG_(calloc)("castell.threads", VG_N_THREADS, sizeof *thread_numbers);
    VG_(atfork)(NULL, NULL, begin_in_child);
    send_start();
}

static void end(Int exit_code) {
    send_end();
}

static void set_up(void) {
    VG_(details_name)("castell");
    VG_(details_version)("1");
    VG_(details_description)("which blocks of memory a program touches");
    VG_(details_copyright_author)("Copyright (C) 2026 the castell developers, GPL-2.0-or-later");
    VG_(details_bug_reports_to)("the castell project");
    VG_(details_avg_translation_sizeB)(600);
    VG_(basic_tool_funcs)(begin, instrument, end);
    VG_(needs_command_line_options)(take_option, print_usage, print_debug_usage);
    VG_(needs_syscall_wrapper)(before_call, after_call);
    VG_(track_start_client_code)(note_thread);
    VG_(track_pre_thread_ll_create)(forget_thread);
    function_ids = VG_(newFM)(VG_(malloc), "castell.functions", VG_(free), compare_names);
}

VG_DETERMINE_INTERFACE_VERSION(set_up)
