/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * `b3[i] = b1[i] op b2[i]`, as crates/goal/src/arithmetic.rs does it: integers wrap around, dividing by zero gives 0. */
#pragma once

#include "bpf.h"

enum operator_code { MAX, MIN, ADD, SUB, DIV, MUL, COPY, AND, OR, XOR };

#define IN_AREA(offset) ((offset) & (AREA_BYTES - 1))

struct bytes { u8 *to; const u8 *from; u32 to_at, from_at, words, bytes; };

/* Eight bytes, or one behind the last eight. */
static long copy_piece(u32 index, struct bytes *copy)
{
    if (index < copy->words) {
        u32 to = IN_AREA(copy->to_at + 8 * index), from = IN_AREA(copy->from_at + 8 * index);
        *(u64 *)(copy->to + to) = *(u64 *)(copy->from + from);
    } else {
        u32 at = 8 * copy->words + (index - copy->words);
        u32 to = IN_AREA(copy->to_at + at), from = IN_AREA(copy->from_at + at);
        copy->to[to] = copy->from[from];
    }
    return 0;
}

INLINE void copy_bytes(u8 *to, u32 to_at, const u8 *from, u32 from_at, u32 bytes)
{
    if (bytes == 0)
        return;
    struct bytes copy = { to, from, to_at, from_at, bytes / 8, bytes };
    loop(bytes / 8 + bytes % 8, copy_piece, &copy, 0);
}

struct elements { u8 *memory; u32 b1, b2, b3, operator_, width, is_signed; };

INLINE u64 load_element(const u8 *at, u32 width, u32 is_signed)
{
    switch (width) {
    case 1: return is_signed ? (u64)(i64)*(i8 *)at : *at;
    case 2: return is_signed ? (u64)(i64)*(i16 *)at : *(u16 *)at;
    case 4: return is_signed ? (u64)(i64)*(i32 *)at : *(u32 *)at;
    default: return *(u64 *)at;
    }
}

INLINE u64 divide(u64 x, u64 y, u32 is_signed)
{
    if (y == 0)
        return 0;
    if (!is_signed)
        return x / y;
    u64 up = (i64)x < 0 ? -x : x, down = (i64)y < 0 ? -y : y;
    u64 quotient = up / down;
    return (i64)(x ^ y) < 0 ? -quotient : quotient;
}

INLINE u64 combine(u32 operator_, u64 x, u64 y, u32 is_signed)
{
    u32 less = is_signed ? (i64)x < (i64)y : x < y;
    switch (operator_) {
    case MAX: return less ? y : x;
    case MIN: return less ? x : y;
    case ADD: return x + y;
    case SUB: return x - y;
    case DIV: return divide(x, y, is_signed);
    case MUL: return x * y;
    case AND: return x & y;
    case OR: return x | y;
    case XOR: return x ^ y;
    default: return x;
    }
}

static long combine_element(u32 index, struct elements *all)
{
    u32 width = all->width, at = index * width;
    u8 *memory = all->memory;
    u64 x = load_element(memory + IN_AREA(all->b1 + at), width, all->is_signed);
    u64 y = load_element(memory + IN_AREA(all->b2 + at), width, all->is_signed);
    u64 z = combine(all->operator_, x, y, all->is_signed);
    u8 *to = memory + IN_AREA(all->b3 + at);
    switch (width) {
    case 1: *to = z; break;
    case 2: *(u16 *)to = z; break;
    case 4: *(u32 *)to = z; break;
    default: *(u64 *)to = z;
    }
    return 0;
}

/* Elements 0 to 3 are signed, 4 to 7 are not; each kind of 1, 2, 4 and 8 bytes. */
INLINE void compute(u8 *scratch, const struct step *step)
{
    u32 element = step->element;
    u32 width = 1u << (element & 3);
    if (step->operator_ == COPY) {
        copy_bytes(scratch, step->b3, scratch, step->b1, step->bytes);
        return;
    }
    struct elements all = { scratch, step->b1, step->b2, step->b3, step->operator_, width, element < 4 };
    loop(step->count, combine_element, &all, 0);
}
