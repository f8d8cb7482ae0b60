/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Frames: what is read of them, and how others are made in their place. */
#pragma once

#include "bpf.h"

INLINE void count(u32 which)
{
    u32 zero = 0;
    struct counters *all = map_lookup(&counters, &zero);
    if (all)
        __sync_fetch_and_add(&all->at[which & 15], 1);
}

INLINE int drop(u32 why)
{
    count(why);
    return XDP_DROP;
}

/* The frame, if its head is whole. */
INLINE u8 *whole_head(struct xdp_md *context)
{
    u8 *head = (void *)(u64)context->data;
    return head + HEAD_BYTES > (u8 *)(u64)context->data_end ? 0 : head;
}

INLINE void address(u8 *head, const struct schedule *schedule, const struct peer *peer)
{
    *(u32 *)head = *(u32 *)peer->mac;
    *(u16 *)(head + 4) = *(u16 *)(peer->mac + 4);
    *(u32 *)(head + AT_FROM_MAC) = *(u32 *)schedule->mac;
    *(u16 *)(head + AT_FROM_MAC + 4) = *(u16 *)(schedule->mac + 4);
    *(u32 *)(head + AT_FROM) = schedule->me;
    *(u32 *)(head + AT_TO) = peer->rank;
    *(u32 *)(head + AT_DONE) = (u32)READ(schedule->done);
}

/* The frame goes back as an answer without a message. */
INLINE int answer(struct xdp_md *context, const struct schedule *schedule, const struct peer *peer, u32 kind)
{
    u8 *head = whole_head(context);
    if (!head)
        return XDP_DROP;
    address(head, schedule, peer);
    head[AT_KIND] = kind;
    *(u16 *)(head + AT_BATCH) = FINISHED;
    count(ANSWERED);
    return turn_round(schedule);
}

/* Makes the frame one with this message; 0: it cannot be that long. */
INLINE int compose(struct xdp_md *context, struct schedule *schedule, u32 run_at, struct channel *channel, u32 number)
{
    struct run *run = map_lookup(&runs, &run_at);
    struct memory *memory = map_lookup(&memories, &run_at);
    if (!run || !memory)
        return 0;
    u32 slot = (channel->base + number) & (OPERATIONS - 1), place = channel->data + number * channel->stride;
    u64 word = READ(run->outbound[slot]);
    u32 bytes = run->outbound_bytes[slot];
    u32 peer_at = channel->peer;
    if ((word & 3) != FULL || bytes > MESSAGE_BYTES || place > AREA_BYTES || peer_at >= PEERS)
        return 0;
    /* All frames of a schedule are as long as its longest, so that one can take another's place. */
    u32 wanted = schedule->frame_bytes, length = context->data_end - context->data;
    if (length < wanted && adjust_tail(context, wanted - length))
        return 0;
    u8 *head = whole_head(context);
    if (!head)
        return 0;
    address(head, schedule, &schedule->peers[peer_at]);
    head[AT_KIND] = DATA;
    *(u16 *)(head + AT_BYTES) = bytes;
    *(u32 *)(head + AT_TAG) = channel->tag;
    *(u32 *)(head + AT_RUN) = word >> 2;
    *(u16 *)(head + AT_NUMBER) = number;
    *(u16 *)(head + AT_BATCH) = FINISHED;
    if (bytes > 0 && bytes <= MESSAGE_BYTES && store_bytes(context, HEAD_BYTES, memory->outbox + place, bytes))
        return 0;
    /* Another run may have taken the place meanwhile, if this was asked for long ago. */
    return READ(run->outbound[slot]) == word;
}

INLINE int compose_data(struct xdp_md *context, struct schedule *schedule, u32 schedule_at, u32 run_at, u32 sent)
{
    u32 at = schedule_at;
    struct channels *all = map_lookup(&channels, &at);
    return all ? compose(context, schedule, run_at, &all->at[(sent >> 16) & (OPERATIONS - 1)], sent & 0xffff) : 0;
}

struct search { struct run *run; u32 slot; };

/* Whether this message is waited for. */
static long is_missing(u32 slot, struct search *search)
{
    struct run *run = search->run;
    if (!run->waiting[slot & (OPERATIONS - 1)] || READ(run->inbound[slot & (OPERATIONS - 1)]) == 4 * run->number + FULL)
        return 0;
    search->slot = slot;
    return 1;
}

/* What a peer misses is not sent yet, as this rank misses something itself: asks for that in turn, so that whoever waits gets the message
 * that was lost, over however many ranks, without any of their processes. 0: it misses nothing. */
INLINE int ask_in_turn(struct xdp_md *context, const struct schedule *schedule, u32 schedule_at, struct channels *all, struct run *run)
{
    u32 at = schedule_at;
    struct steps *all_steps = map_lookup(&steps, &at);
    struct search search = { run, NOWHERE };
    loop(OPERATIONS, is_missing, &search, 0);
    if (!all_steps || search.slot >= OPERATIONS)
        return 0;
    u32 operation = run->waiting[search.slot] - 1;
    const struct step *step = &all_steps->at[operation & (OPERATIONS - 1)];
    struct channel *channel = &all->at[step->channel & (OPERATIONS - 1)];
    u32 peer_at = channel->peer;
    u8 *head = whole_head(context);
    if (!head || step->kind != RECV || peer_at >= PEERS)
        return 0;
    address(head, schedule, &schedule->peers[peer_at]);
    *(u32 *)(head + AT_TAG) = channel->tag;
    *(u16 *)(head + AT_NUMBER) = search.slot - channel->base;
    *(u16 *)(head + AT_HOPS) += 1;
    /* An odd number: it is handed on from there, too. */
    *(u16 *)(head + AT_BATCH) = FINISHED;
    return 1;
}

/* A peer misses a message. */
INLINE int send_again(struct xdp_md *context, struct schedule *schedule, u32 schedule_at, struct peer *peer, u8 *head,
                      u32 channel_at)
{
    u32 at = schedule_at, run = *(u32 *)(head + AT_RUN), number = *(u16 *)(head + AT_NUMBER);
    struct channels *all = map_lookup(&channels, &at);
    u32 run_at = schedule_at * RUNS + run % RUNS;
    struct run *state = map_lookup(&runs, &run_at);
    if (!all || !state || channel_at >= OPERATIONS)
        return XDP_DROP;
    struct channel *channel = &all->at[channel_at];
    if (number >= channel->count)
        return drop(MALFORMED);
    u32 slot = (channel->base + number) & (OPERATIONS - 1);
    if (READ(state->outbound[slot]) != 4 * (u64)run + FULL) {
        /* Every other time it is handed on, else the peer hears that this rank is there. */
        u32 is_handed_on = *(u16 *)(head + AT_ATTEMPT) & 1 && *(u16 *)(head + AT_HOPS) < PEERS;
        if (is_handed_on && state->live && state->number == run && ask_in_turn(context, schedule, schedule_at, all, state)) {
            count(ANSWERED);
            return turn_round(schedule);
        }
        return answer(context, schedule, peer, NOT_YET);
    }
    if (!compose(context, schedule, run_at, channel, number)) {
        count(NOT_SENT);
        return XDP_DROP;
    }
    count(ANSWERED);
    return turn_round(schedule);
}
