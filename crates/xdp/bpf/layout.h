/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the kernel's side and the process's side share: the frame, the maps' values, the limits. `src/layout.rs` says the same in
 * Rust, and a test compares both. README.md has the states. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;

/* Limits. */
#define SCHEDULES 16
#define RUNS 8
#define OPERATIONS 1024
#define EDGES 8192
#define PEERS 64
#define AREA_BYTES 32768
#define MESSAGE_BYTES 1400
#define SENDS 64
#define BATCHES 128
#define NOWHERE 0xffffffffu

/* The frame: little-endian but for the EtherType. Bytes from the start of Ethernet's header. */
#define ETHERTYPE 0x88B5
#define VERSION 0x81
#define AT_FROM_MAC 6
#define AT_ETHERTYPE 12
#define AT_VERSION 14
#define AT_KIND 15
#define AT_BYTES 16
#define AT_SESSION 18
#define AT_FROM 26
#define AT_TO 30
#define AT_TAG 34
#define AT_RUN 38
#define AT_DONE 42
#define AT_NUMBER 46
#define AT_BATCH 48
#define AT_GENERATION 50
#define HEAD_BYTES 54
/* Of a request: how often it was made, and over how many ranks it has been handed on. */
#define AT_ATTEMPT AT_BATCH
#define AT_HOPS AT_BYTES
/* In place of a batch: the frame is as it shall be. */
#define FINISHED 0xffff
#define FRAME_BYTES_MIN 60

enum kind { DATA = 1, REQUEST = 2, NOT_YET = 3, QUERY = 4, DONE = 5 };

/* What a step does. */
enum step_kind { PROXY = 0, SEND = 1, RECV = 2, LOCAL = 3 };
enum direction { RECEIVES = 0, SENDS_TO = 1, KNOWS = 2 };

/* The word `pending` of a run: who drains, and what for. Bits 0 to 15 name words of `arrived`. */
#define KICKED (1ull << 16)
#define ARMED (1ull << 17)
#define OWNED (1ull << 63)

/* A message's word: 4 * run, and one of these; what is lower than 4 * run + FILLING is empty for this run. */
#define FILLING 1
#define FULL 2

/* Counters of what came. */
enum counter {
    CAME, FOREIGN_SESSION, FORGED, MALFORMED, NO_CHANNEL, AGAIN, TOO_EARLY, TOO_LATE, LEFT, ALONE, CLONED, ANSWERED,
    NOT_SENT, COUNTERS
};

/* Why a run cannot end. */
enum run_error { NO_ERROR = 0, WRONG_SIZE = 1 };

struct step {
    u32 kind, bytes, channel, needs;
    u32 b1, b2, b3, count;
    u32 operator_, element;
    u32 successors_at, successors;
    u32 starts_at, starts;
    u32 padding[2];
};
struct steps { struct step at[OPERATIONS]; };
struct edges { u32 at[EDGES]; };

/* All messages of one tag to or from one peer: number n of them has word `base + n`, and its bytes lie at `data + n * stride`. */
struct channel { u32 base, count, peer, stride, data, tag; };
struct channels { struct channel at[OPERATIONS]; };

struct peer { u8 mac[6]; u16 padding; u32 rank, acknowledged; u64 heard_ns; };

struct schedule {
    u64 session;
    u64 done;          /* so many runs, from the first on, are through */
    u64 sleeping;      /* the process wants to be woken */
    u32 me, operations, frame_bytes, redirects;
    u8 mac[6];
    u16 padding;
    struct peer peers[PEERS];
};

/* What the owner of a run is at. It lies here and not on the stack, where the verifier would follow each value. */
struct owner {
    u64 bits, words;       /* messages of word `word`, and words of `arrived`, that are still to be looked at */
    u32 word;
    u32 edge, edges_left;  /* successors that are still to be released */
    u32 taken;             /* 1 + the operation that is to be carried out next */
    u32 sends, completed;
};

struct run {
    u64 pending, completed, armed_ns, completed_ns, error, number;
    u32 live, head, tail, unfinished;
    u32 sends, padding;
    struct owner owner;
    u32 sent[SENDS];              /* channel << 16 | number: what a kick of the process is to send */
    u64 arrived[16];
    u64 inbound[OPERATIONS];
    u64 outbound[OPERATIONS];
    u32 inbound_bytes[OPERATIONS];
    u32 outbound_bytes[OPERATIONS];
    u32 counters[OPERATIONS];
    u32 ring[OPERATIONS];
    u32 numbers[OPERATIONS];      /* of each channel, the next */
    u32 waiting[OPERATIONS];      /* of each inbound message, 1 + the operation that waits for it */
};

/* The slack lets a bound on the offset and one on the length prove an access. */
struct memory {
    u8 scratch[AREA_BYTES + 2048];
    u8 inbox[AREA_BYTES + 2048];
    u8 outbox[AREA_BYTES + 2048];
};

struct session_key { u64 session; u32 to, padding; };
struct channel_key { u32 schedule, rank, tag, direction; };
struct batch { u32 generation, sends, next, schedule, run, padding; u32 sent[SENDS]; };
struct counters { u64 at[16]; };
