/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Carries schedules out where frames arrive. README.md beside the crate has the states.
 *
 *   frame    at the interface: takes castell's frames, passes all others on
 *   user     run by the process (BPF_PROG_TEST_RUN): begins a run, or looks at it again
 *   each     at the way out, for each copy of a frame of which several are sent
 */
#include "bpf.h"

struct { __uint(type, MAP_HASH); __type(key, struct session_key); __type(value, u32); __uint(max_entries, SCHEDULES); } sessions SEC(".maps");
struct { __uint(type, MAP_HASH); __type(key, struct channel_key); __type(value, u32); __uint(max_entries, SCHEDULES * (OPERATIONS + PEERS)); } lookup SEC(".maps");
struct { __uint(type, MAP_ARRAY); __type(key, u32); __type(value, struct schedule); __uint(max_entries, SCHEDULES); __uint(map_flags, MMAPABLE); } schedules SEC(".maps");
struct { __uint(type, MAP_ARRAY); __type(key, u32); __type(value, struct steps); __uint(max_entries, SCHEDULES); __uint(map_flags, MMAPABLE); } steps SEC(".maps");
struct { __uint(type, MAP_ARRAY); __type(key, u32); __type(value, struct edges); __uint(max_entries, SCHEDULES); __uint(map_flags, MMAPABLE); } edges SEC(".maps");
struct { __uint(type, MAP_ARRAY); __type(key, u32); __type(value, struct channels); __uint(max_entries, SCHEDULES); __uint(map_flags, MMAPABLE); } channels SEC(".maps");
struct { __uint(type, MAP_ARRAY); __type(key, u32); __type(value, struct run); __uint(max_entries, SCHEDULES * RUNS); __uint(map_flags, MMAPABLE); } runs SEC(".maps");
struct { __uint(type, MAP_ARRAY); __type(key, u32); __type(value, struct memory); __uint(max_entries, SCHEDULES * RUNS); __uint(map_flags, MMAPABLE); } memories SEC(".maps");
struct { __uint(type, MAP_ARRAY); __type(key, u32); __type(value, struct counters); __uint(max_entries, 1); __uint(map_flags, MMAPABLE); } counters SEC(".maps");
struct { __uint(type, MAP_PERCPU_ARRAY); __type(key, u32); __type(value, struct batch); __uint(max_entries, BATCHES); } batches SEC(".maps");
struct { __uint(type, MAP_PERCPU_ARRAY); __type(key, u32); __type(value, u32); __uint(max_entries, 1); } tickets SEC(".maps");
struct { __uint(type, MAP_RINGBUF); __uint(max_entries, 65536); } events SEC(".maps");

struct device { u32 interface; u32 program; };
#define DEVICES(n) struct { __uint(type, MAP_DEVMAP); __type(key, u32); __type(value, struct device); __uint(max_entries, n); } devices_##n SEC(".maps")
DEVICES(1);
DEVICES(2);
DEVICES(4);
DEVICES(8);
DEVICES(16);
DEVICES(32);
DEVICES(64);

#include "arithmetic.h"
#include "drain.h"

/* Back by the interface that it came from. A veth's other end takes turned frames only where it has a program of its own, redirected ones also
 * where it gathers frames. */
INLINE int turn_round(const struct schedule *schedule)
{
    return schedule->redirects ? redirect_map(&devices_1, 0, 0) : XDP_TX;
}

#include "wire.h"

char LICENSE[] SEC("license") = "MIT";

/* Sends what the draining has brought forth, in place of the frame at hand: one by turning it round, several by copies of it. */
INLINE int send_all(struct xdp_md *context, struct schedule *schedule, u32 schedule_at, u32 run_at, struct batch *batch, u32 ticket)
{
    u32 sends = READ(batch->sends);
    if (sends == 0)
        return XDP_DROP;
    if (sends == 1) {
        if (!compose_data(context, schedule, schedule_at, run_at, batch->sent[0])) {
            count(NOT_SENT);
            return XDP_DROP;
        }
        count(ALONE);
        return turn_round(schedule);
    }
    u8 *head = whole_head(context);
    if (!head)
        return XDP_DROP;
    *(u16 *)(head + AT_BATCH) = ticket;
    *(u32 *)(head + AT_GENERATION) = batch->generation;
    batch->next = 0;
    batch->schedule = schedule_at;
    batch->run = run_at;
    count(CLONED);
    if (sends <= 2)
        return redirect_map(&devices_2, 0, BROADCAST);
    if (sends <= 4)
        return redirect_map(&devices_4, 0, BROADCAST);
    if (sends <= 8)
        return redirect_map(&devices_8, 0, BROADCAST);
    if (sends <= 16)
        return redirect_map(&devices_16, 0, BROADCAST);
    if (sends <= 32)
        return redirect_map(&devices_32, 0, BROADCAST);
    return redirect_map(&devices_64, 0, BROADCAST);
}

/* A message: into its place, and the run goes on. */
INLINE int take_message(struct xdp_md *context, struct schedule *schedule, u32 schedule_at, u8 *head, u32 channel_at)
{
    u32 at = schedule_at;
    struct channels *all = map_lookup(&channels, &at);
    if (!all || channel_at >= OPERATIONS)
        return XDP_DROP;
    struct channel *channel = &all->at[channel_at];
    u32 number = *(u16 *)(head + AT_NUMBER), bytes = *(u16 *)(head + AT_BYTES), run = *(u32 *)(head + AT_RUN);
    if (number >= channel->count || bytes > channel->stride || bytes > MESSAGE_BYTES)
        return drop(MALFORMED);
    u64 ahead = (u64)run - READ(schedule->done);
    if ((i64)ahead < 0)
        return drop(TOO_LATE);
    if (ahead >= RUNS)
        return drop(TOO_EARLY);
    u32 run_at = schedule_at * RUNS + run % RUNS;
    struct run *state = map_lookup(&runs, &run_at);
    struct memory *memory = map_lookup(&memories, &run_at);
    if (!state || !memory)
        return XDP_DROP;
    u32 slot = channel->base + number;
    u32 place = channel->data + number * channel->stride;
    if (slot >= OPERATIONS || place > AREA_BYTES)
        return drop(MALFORMED);
    u64 empty = READ(state->inbound[slot]), filling = 4 * (u64)run + FILLING;
    if (empty >= filling || __sync_val_compare_and_swap(&state->inbound[slot], empty, filling) != empty)
        return drop(AGAIN);
    if (bytes > 0 && bytes <= MESSAGE_BYTES && load_bytes(context, HEAD_BYTES, memory->inbox + place, bytes)) {
        /* Shorter than it says: as if it had not come. */
        __sync_lock_test_and_set(&state->inbound[slot], empty);
        return drop(MALFORMED);
    }
    state->inbound_bytes[slot] = bytes;
    __sync_lock_test_and_set(&state->inbound[slot], 4 * (u64)run + FULL);
    u32 word = (slot / 64) & 15;
    __sync_fetch_and_or(&state->arrived[word], 1ull << (slot & 63));
    if (__sync_fetch_and_or(&state->pending, (1ull << word) | OWNED) & OWNED) {
        count(LEFT);
        return XDP_DROP;
    }
    u32 zero = 0;
    u32 *tickets_here = map_lookup(&tickets, &zero);
    if (!tickets_here)
        return XDP_DROP;
    u32 generation = ++*tickets_here, ticket = generation % BATCHES;
    struct batch *batch = map_lookup(&batches, &ticket);
    if (!batch)
        return XDP_DROP;
    batch->generation = generation;
    batch->sends = drain(schedule, schedule_at, run_at, state, memory, batch->sent);
    return send_all(context, schedule, schedule_at, run_at, batch, ticket);
}

SEC("xdp")
int frame(struct xdp_md *context)
{
    u8 *head = whole_head(context);
    if (!head || *(u16 *)(head + AT_ETHERTYPE) != __builtin_bswap16(ETHERTYPE) || head[AT_VERSION] != VERSION)
        return XDP_PASS;
    count(CAME);
    struct session_key session = { .session = *(u64 *)(head + AT_SESSION), .to = *(u32 *)(head + AT_TO) };
    u32 *found = map_lookup(&sessions, &session);
    if (!found)
        return drop(FOREIGN_SESSION);
    u32 schedule_at = *found;
    struct schedule *schedule = map_lookup(&schedules, &schedule_at);
    if (!schedule)
        return XDP_DROP;
    u32 kind = head[AT_KIND], from = *(u32 *)(head + AT_FROM);
    struct channel_key key = { .schedule = schedule_at, .rank = from, .tag = 0, .direction = KNOWS };
    found = map_lookup(&lookup, &key);
    u32 peer_at = found ? *found : NOWHERE;
    if (peer_at >= PEERS)
        return drop(FORGED);
    struct peer *peer = &schedule->peers[peer_at];
    if (*(u32 *)(head + AT_FROM_MAC) != *(u32 *)peer->mac || *(u16 *)(head + AT_FROM_MAC + 4) != *(u16 *)(peer->mac + 4))
        return drop(FORGED);
    peer->heard_ns = ktime_get_ns();
    u32 done = *(u32 *)(head + AT_DONE);
    if ((i32)(done - peer->acknowledged) > 0)
        peer->acknowledged = done;
    if (kind == QUERY)
        return answer(context, schedule, peer, DONE);
    if (kind != DATA && kind != REQUEST)
        return XDP_DROP;
    key.tag = *(u32 *)(head + AT_TAG);
    key.direction = kind == DATA ? RECEIVES : SENDS_TO;
    found = map_lookup(&lookup, &key);
    if (!found)
        return drop(NO_CHANNEL);
    if (kind == REQUEST)
        return send_again(context, schedule, schedule_at, peer, head, *found);
    return take_message(context, schedule, schedule_at, head, *found);
}

/* What the process asks for: schedule, run modulo RUNS, and whether that run begins. */
struct question { u32 schedule, run, begins, padding; u64 padding_[2]; };

SEC("xdp")
int user(struct xdp_md *context)
{
    struct question *question = (void *)(u64)context->data;
    if ((void *)(question + 1) > (void *)(u64)context->data_end)
        return XDP_ABORTED;
    u32 schedule_at = question->schedule, run_at = schedule_at * RUNS + question->run % RUNS;
    struct schedule *schedule = map_lookup(&schedules, &schedule_at);
    struct run *state = map_lookup(&runs, &run_at);
    struct memory *memory = map_lookup(&memories, &run_at);
    if (!schedule || !state || !memory)
        return XDP_ABORTED;
    if (question->begins)
        state->armed_ns = ktime_get_ns();
    state->sends = 0;
    u64 why = question->begins ? ARMED : KICKED;
    if (__sync_fetch_and_or(&state->pending, why | OWNED) & OWNED)
        return XDP_DROP;
    state->sends = drain(schedule, schedule_at, run_at, state, memory, state->sent);
    return XDP_TX;
}

SEC("xdp/devmap")
int each(struct xdp_md *context)
{
    u8 *head = whole_head(context);
    if (!head)
        return XDP_DROP;
    u32 ticket = *(u16 *)(head + AT_BATCH);
    if (ticket == FINISHED)
        return XDP_PASS;
    u32 generation = *(u32 *)(head + AT_GENERATION);
    struct batch *batch = map_lookup(&batches, &ticket);
    if (!batch || batch->generation != generation)
        return XDP_DROP;
    u32 next = batch->next++;
    if (next >= batch->sends || next >= SENDS)
        return XDP_DROP;
    u32 schedule_at = batch->schedule, run_at = batch->run;
    struct schedule *schedule = map_lookup(&schedules, &schedule_at);
    if (!schedule || !compose_data(context, schedule, schedule_at, run_at, batch->sent[next])) {
        count(NOT_SENT);
        return XDP_DROP;
    }
    return XDP_PASS;
}
