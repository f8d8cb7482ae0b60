/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What of the kernel's interface for BPF programs is used here, so that a build needs no kernel headers. None of these helpers is for programs
 * under the GPL only. */
#pragma once

#include "layout.h"

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) value *name

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_DEVMAP = 14, MAP_RINGBUF = 27 };
#define MMAPABLE (1u << 10)
#define FORCE_WAKEUP 2
#define BROADCAST (1ull << 3)

struct xdp_md { u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex; };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static long (*const redirect_map)(void *map, u64 key, u64 flags) = (void *)51;
static long (*const adjust_tail)(struct xdp_md *context, int delta) = (void *)65;
static long (*const ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static long (*const loop)(u32 times, void *callback, void *context, u64 flags) = (void *)181;
static long (*const load_bytes)(struct xdp_md *context, u32 offset, void *to, u32 bytes) = (void *)189;
static long (*const store_bytes)(struct xdp_md *context, u32 offset, void *from, u32 bytes) = (void *)190;

/* Keeps a value in a register, so that what was proved about it stays with it. */
#define keep(value) asm volatile("" : "+r"(value))
#define READ(place) (*(volatile typeof(place) *)&(place))
