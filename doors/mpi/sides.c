/* sides.c: the memory of calls. What is contiguous castell finds where it is; the bytes of all else are packed before a call and
 * unpacked after it, by the MPI below.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "door.h"

#include <stdlib.h>

/* A part: where it starts, how much it has, and of what. */
struct part {
    char *at;
    MPI_Count count;
    MPI_Datatype type;
    const struct door_type *known;
};

/* NULL where there are elements can only be meant if their type has addresses in it. */
static int is_there(const struct part *part)
{
    return part->at || part->count == 0 || part->known->size == 0 || part->known->true_lb != 0;
}

static int part_of(const struct door_side *side, int at, struct part *part)
{
    part->type = side->types ? side->types[at] : side->type;
    part->known = door_type_of(part->type);
    if (!part->known)
        return 0;
    if (!side->is_listed) {
        part->count = side->count;
        part->at = side->base + at * side->count * part->known->extent;
    } else {
        MPI_Count start = side->starts.at ? door_item(side->starts, at) : 0;
        part->count = door_item(side->counts, at);
        part->at = side->base + start * (side->starts_are_bytes ? 1 : part->known->extent);
    }
    return part->count >= 0;
}

static int set_listed(struct door_side *side)
{
    side->sizes = malloc(sizeof(size_t) * (size_t)(2 * side->parts + 1));
    if (!side->sizes)
        abort();
    side->places = side->sizes + side->parts;
    int is_contiguous = 1;
    char *lowest = NULL;
    struct part part;
    for (int at = 0; at < side->parts; at++) {
        /* Types of parts without elements need not even be types. */
        if (side->is_listed && door_item(side->counts, at) == 0) {
            side->sizes[at] = 0;
            continue;
        }
        if (!part_of(side, at, &part) || (side->base == NULL && !is_there(&part)))
            return 0;
        side->sizes[at] = (size_t)(part.count * part.known->size);
        side->bytes += side->sizes[at];
        is_contiguous &= part.known->is_contiguous;
        char *start = part.at + part.known->lb;
        if (side->sizes[at] && (!lowest || start < lowest))
            lowest = start;
    }
    if (!is_contiguous) {
        side->packed = malloc(side->bytes + 1);
        if (!side->packed)
            abort();
    }
    side->address = is_contiguous ? lowest : side->packed;
    size_t next = 0;
    for (int at = 0; at < side->parts; at++) {
        side->places[at] = is_contiguous ? 0 : next;
        if (is_contiguous && side->sizes[at]) {
            part_of(side, at, &part);
            side->places[at] = (size_t)(part.at + part.known->lb - lowest);
        }
        next += side->sizes[at];
    }
    return 1;
}

int door_side_set(struct door_side *side)
{
    if (side->is_listed)
        return (side->parts == 0 || side->counts.at) && set_listed(side);
    struct part part;
    if (!part_of(side, 0, &part) || !is_there(&part))
        return 0;
    side->bytes = (size_t)(part.count * part.known->size) * (size_t)side->parts;
    side->address = side->base + part.known->lb;
    if (!part.known->is_contiguous && side->bytes) {
        side->packed = malloc(side->bytes);
        if (!side->packed)
            abort();
        side->address = side->packed;
    }
    return 1;
}

/* All parts at once, if they lie one behind the other. */
static void whole(const struct door_side *side, struct part *part)
{
    part_of(side, 0, part);
    part->count *= side->parts;
}

int door_side_pack(const struct door_side *side, int only)
{
    struct part part;
    if (!side->packed)
        return 0;
    if (!side->is_listed && only < 0) {
        whole(side, &part);
        return door_pack(part.at, part.count, part.type, side->packed, (MPI_Count)side->bytes);
    }
    int error = 0, first = only < 0 ? 0 : only, end = only < 0 ? side->parts : only + 1;
    for (int at = first; at < end && !error; at++) {
        size_t bytes = side->is_listed ? side->sizes[at] : side->bytes / (size_t)side->parts;
        size_t place = side->is_listed ? side->places[at] : bytes * (size_t)at;
        if (bytes && part_of(side, at, &part))
            error = door_pack(part.at, part.count, part.type, side->packed + place, (MPI_Count)bytes);
    }
    return error;
}

int door_side_unpack(const struct door_side *side)
{
    struct part part;
    if (!side->packed)
        return 0;
    if (!side->is_listed) {
        whole(side, &part);
        return door_unpack(side->packed, (MPI_Count)side->bytes, part.at, part.count, part.type);
    }
    int error = 0;
    for (int at = 0; at < side->parts && !error; at++)
        if (side->sizes[at] && part_of(side, at, &part))
            error = door_unpack(side->packed + side->places[at], (MPI_Count)side->sizes[at], part.at, part.count, part.type);
    return error;
}
