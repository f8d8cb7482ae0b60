/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Carries a run on as far as it goes. One processor does it at a time, the owner, without a lock: who brings something sets its bit in
 * `pending`; who finds nobody owning takes the run over, and lets it go only when nothing was brought meanwhile. Nobody waits. */
#pragma once

#include "arithmetic.h"

#define AT(index) ((index) & (OPERATIONS - 1))

struct work {
    struct run *run;
    struct memory *memory;
    struct steps *steps;
    struct edges *edges;
    struct channels *channels;
    struct schedule *schedule;
    u32 *sent;
    u32 schedule_at, run_at;
    u32 sends, completed;  /* as of when the run was let go */
    u32 stands;
};

/* The number of the lowest bit that is set: without branches, of which the verifier would follow each. */
INLINE u32 lowest(u64 bits)
{
    u64 below = (bits & -bits) - 1;
    below -= (below >> 1) & 0x5555555555555555;
    below = (below & 0x3333333333333333) + ((below >> 2) & 0x3333333333333333);
    below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return (below * 0x0101010101010101) >> 56;
}

INLINE void ready(struct run *run, u32 operation)
{
    run->ring[AT(run->tail)] = operation;
    run->tail++;
}

INLINE void release(struct run *run, u32 operation)
{
    u32 *counter = &run->counters[AT(operation)];
    /* 0 already: more than `any` asks for. */
    if (*counter > 0 && --*counter == 0)
        ready(run, operation);
}

INLINE void finish(struct work *work, const struct step *step)
{
    struct run *run = work->run;
    run->unfinished--;
    run->owner.edge = step->successors_at;
    run->owner.edges_left = step->successors;
}

/* The message has come that this operation waits for. */
INLINE void receive(struct work *work, const struct step *step, u32 slot, u32 place)
{
    struct run *run = work->run;
    u32 bytes = run->inbound_bytes[AT(slot)];
    if (bytes != step->bytes) {
        run->error = WRONG_SIZE | (u64)slot << 8 | (u64)bytes << 32;
        return;
    }
    if (step->b3 != NOWHERE)
        copy_bytes(work->memory->scratch, step->b3, work->memory->inbox, place, bytes);
    finish(work, step);
}

INLINE void begin_receive(struct work *work, const struct step *step, u32 operation)
{
    struct run *run = work->run;
    struct channel *channel = &work->channels->at[AT(step->channel)];
    u32 number = run->numbers[AT(step->channel)]++;
    u32 slot = AT(channel->base + number);
    if (READ(run->inbound[slot]) == 4 * run->number + FULL)
        receive(work, step, slot, channel->data + number * channel->stride);
    else
        run->waiting[slot] = operation + 1;
}

/* A message has come: perhaps somebody waits for it. */
INLINE void look_at(struct work *work, u32 slot)
{
    struct run *run = work->run;
    u32 waiting = run->waiting[AT(slot)];
    if (!waiting || READ(run->inbound[AT(slot)]) != 4 * run->number + FULL)
        return;
    run->waiting[AT(slot)] = 0;
    const struct step *step = &work->steps->at[AT(waiting - 1)];
    struct channel *channel = &work->channels->at[AT(step->channel)];
    receive(work, step, slot, channel->data + (slot - channel->base) * channel->stride);
}

INLINE void begin_send(struct work *work, const struct step *step)
{
    struct run *run = work->run;
    struct channel *channel = &work->channels->at[AT(step->channel)];
    u32 number = run->numbers[AT(step->channel)]++;
    u32 slot = AT(channel->base + number);
    /* Who is asked for the message of an earlier run that was here sees that it goes. */
    __sync_lock_test_and_set(&run->outbound[slot], 4 * run->number + FILLING);
    if (step->b1 != NOWHERE)
        copy_bytes(work->memory->outbox, channel->data + number * channel->stride, work->memory->scratch, step->b1, step->bytes);
    run->outbound_bytes[slot] = step->bytes;
    __sync_lock_test_and_set(&run->outbound[slot], 4 * run->number + FULL);
    work->sent[run->owner.sends & (SENDS - 1)] = step->channel << 16 | number;
    run->owner.sends++;
    finish(work, step);
}

INLINE void carry_out(struct work *work, u32 operation)
{
    const struct step *step = &work->steps->at[AT(operation)];
    switch (step->kind) {
    case SEND: begin_send(work, step); break;
    case RECV: begin_receive(work, step, operation); break;
    case LOCAL: compute(work->memory->scratch, step); finish(work, step); break;
    default: finish(work, step);
    }
}

struct event { u32 schedule, run; };

INLINE void complete(struct work *work)
{
    struct run *run = work->run;
    u64 number = run->number;
    run->live = 0;
    run->completed_ns = ktime_get_ns();
    __sync_lock_test_and_set(&run->completed, number + 1);
    run->owner.completed = 1;
}

/* Counts the runs that are through without a gap. Whoever completes a run looks after it has said so; so the last of several that complete at
 * once sees all. */
static long advance(u32 index, struct work *work)
{
    u64 done = READ(work->schedule->done);
    u32 run_at = work->schedule_at * RUNS + (u32)done % RUNS;
    struct run *run = map_lookup(&runs, &run_at);
    if (!run || READ(run->completed) != done + 1)
        return 1;
    __sync_val_compare_and_swap(&work->schedule->done, done, done + 1);
    return 0;
}

/* What the owner has brought forth, while it still is the owner. */
INLINE void remember(struct work *work, struct run *run)
{
    work->sends = run->owner.sends;
    work->completed = run->owner.completed;
}

/* There is no room for what is to be sent next: lets the run go as it is. The process, or the next frame, takes it on: KICKED stays. */
INLINE long stand_still(struct work *work, struct run *run)
{
    remember(work, run);
    work->stands = 1;
    __sync_fetch_and_or(&run->pending, KICKED);
    __sync_fetch_and_and(&run->pending, ~OWNED);
    return 1;
}

/* One small piece of work; 1: there is none left, and the run is let go. */
static long piece(u32 index, struct work *work)
{
    struct run *run = work->run;
    if (run->owner.edges_left) {
        run->owner.edges_left--;
        release(run, work->edges->at[run->owner.edge++ & (EDGES - 1)]);
        return 0;
    }
    if (run->live) {
        if (run->unfinished == 0) {
            complete(work);
            return 0;
        }
        if (run->owner.taken) {
            u32 operation = run->owner.taken - 1;
            run->owner.taken = 0;
            carry_out(work, operation);
            return 0;
        }
        if (run->head != run->tail) {
            if (run->owner.sends == SENDS)
                return stand_still(work, run);
            u32 operation = run->ring[AT(run->head)];
            run->head++;
            const struct step *step = &work->steps->at[AT(operation)];
            /* What waits for its start is released first. */
            run->owner.taken = operation + 1;
            run->owner.edge = step->starts_at;
            run->owner.edges_left = step->starts;
            return 0;
        }
    }
    if (run->owner.bits) {
        u32 bit = lowest(run->owner.bits);
        run->owner.bits &= run->owner.bits - 1;
        if (run->live)
            look_at(work, run->owner.word * 64 + bit);
        return 0;
    }
    if (run->owner.words) {
        run->owner.word = lowest(run->owner.words) & 15;
        run->owner.words &= run->owner.words - 1;
        run->owner.bits = __sync_lock_test_and_set(&run->arrived[run->owner.word], 0);
        return 0;
    }
    u64 brought = READ(run->pending) & ~OWNED;
    if (brought) {
        brought = __sync_lock_test_and_set(&run->pending, OWNED);
        if (brought & ARMED)
            run->live = 1;
        run->owner.words = brought & 0xffff;
        return 0;
    }
    remember(work, run);
    return __sync_val_compare_and_swap(&run->pending, OWNED, 0) == OWNED;
}

#define PIECES_MAX (1 << 20)

/* As the owner: gives how many messages were sent, into `sent`. */
static __attribute__((noinline)) u32 drain_run(struct work *work)
{
    struct run *run = work->run;
    run->owner.sends = run->owner.completed = 0;
    loop(PIECES_MAX, piece, work, 0);
    if (work->completed)
        loop(2 * RUNS, advance, work, 0);
    if ((work->completed || work->stands) && READ(work->schedule->sleeping)) {
        struct event event = { work->schedule_at, work->run_at };
        ringbuf_output(&events, &event, sizeof event, FORCE_WAKEUP);
    }
    return work->sends;
}

INLINE u32 drain(struct schedule *schedule, u32 schedule_at, u32 run_at, struct run *run, struct memory *memory, u32 *sent)
{
    u32 at = schedule_at;
    struct steps *all_steps = map_lookup(&steps, &at);
    struct edges *all_edges = map_lookup(&edges, &at);
    struct channels *all_channels = map_lookup(&channels, &at);
    if (!all_steps || !all_edges || !all_channels)
        return 0;
    struct work work = { .run = run, .memory = memory, .steps = all_steps, .edges = all_edges, .channels = all_channels, .schedule = schedule,
                         .sent = sent, .schedule_at = schedule_at, .run_at = run_at };
    return drain_run(&work);
}
