/* types.c: what is known of datatypes. Predefined ones are in a table; of others it is found out once and kept with the type as an
 * attribute, until the type is freed.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "below.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Larger types are taken for types with gaps without a look. Bytes. */
#define LOOKED_AT_MAX (64 << 20)
/* Elements that one call packs: counts of MPI_Pack are ints. Bytes. */
#define PACKED_MAX (1 << 30)
#define PREDEFINED_MAX 128

static struct predefined {
    MPI_Datatype handle;
    struct door_type type;
} predefined[PREDEFINED_MAX];
static int predefined_count;
static int keyval = MPI_KEYVAL_INVALID;

_Thread_local struct door_seen door_seen[DOOR_SEEN];
static uint64_t freed = 1;

static castell_type integer_of(size_t bytes, int is_signed)
{
    switch (bytes) {
    case 1: return is_signed ? CASTELL_INT8 : CASTELL_UINT8;
    case 2: return is_signed ? CASTELL_INT16 : CASTELL_UINT16;
    case 4: return is_signed ? CASTELL_INT32 : CASTELL_UINT32;
    case 8: return is_signed ? CASTELL_INT64 : CASTELL_UINT64;
    default: return 0;
    }
}

static castell_type float_of(MPI_Count bytes)
{
    /* Ten bytes in sixteen are castell's no more than true numbers of sixteen. */
    return bytes == 4 ? CASTELL_FLOAT : bytes == 8 ? CASTELL_DOUBLE : 0;
}

static castell_type complex_of(MPI_Count bytes)
{
    return bytes == 8 ? CASTELL_COMPLEX_FLOAT : bytes == 16 ? CASTELL_COMPLEX_DOUBLE : 0;
}

/* Asks the MPI for the sizes. */
static int measure(MPI_Datatype handle, struct door_type *type)
{
    int error = below_Type_size_x(handle, &type->size);
    if (!error)
        error = below_Type_get_extent_x(handle, &type->lb, &type->extent);
    if (!error)
        error = below_Type_get_true_extent_x(handle, &type->true_lb, &type->true_extent);
    type->has_overhang =
        type->true_lb < type->lb || type->true_lb + type->true_extent > type->lb + type->extent || type->extent < 0;
    type->is_dense = type->size == type->extent && !type->has_overhang && type->true_extent == type->size;
    type->is_valid = !error;
    return error;
}

static void add(MPI_Datatype handle, enum door_class is, castell_type native)
{
    struct predefined *entry = &predefined[predefined_count];
    if (handle == MPI_DATATYPE_NULL || predefined_count == PREDEFINED_MAX || measure(handle, &entry->type) ||
        entry->type.size <= 0)
        return;
    entry->handle = handle;
    entry->type.is = is;
    entry->type.native = native;
    entry->type.is_contiguous = entry->type.is_dense;
    predefined_count++;
}

static void add_sized(MPI_Datatype handle, enum door_class is, castell_type (*native)(MPI_Count))
{
    MPI_Count size = 0;
    if (handle != MPI_DATATYPE_NULL && !below_Type_size_x(handle, &size))
        add(handle, is, native(size));
}

static castell_type signed_of(MPI_Count bytes)
{
    return integer_of((size_t)bytes, 1);
}

static castell_type pair_of_integers(MPI_Count bytes)
{
    return bytes == 8 ? CASTELL_INT32_INT : bytes == 16 ? CASTELL_INT64_INT : 0;
}

static castell_type none_of(MPI_Count bytes)
{
    (void)bytes;
    return 0;
}

static void add_fortran(void)
{
    MPI_Datatype integers[] = {MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8};
    MPI_Datatype floats[] = {MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8, MPI_REAL16};
    MPI_Datatype complexes[] = {MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16, MPI_COMPLEX32};
#define ALL(list, is, native) \
    for (size_t at = 0; at < sizeof list / sizeof *list; at++) \
        add_sized(list[at], is, native)
    ALL(integers, DOOR_INTEGERS, signed_of);
    ALL(floats, DOOR_FLOATS, float_of);
    ALL(complexes, DOOR_COMPLEX, complex_of);
#undef ALL
    add(MPI_LOGICAL, DOOR_LOGICALS, 0);
    add(MPI_CHARACTER, DOOR_NOTHING, 0);
    add_sized(MPI_2INTEGER, DOOR_PAIRS, pair_of_integers);
    add_sized(MPI_2REAL, DOOR_PAIRS, none_of);
    add_sized(MPI_2DOUBLE_PRECISION, DOOR_PAIRS, none_of);
}

static void add_predefined(void)
{
#define INTEGER(handle, type) add(handle, DOOR_INTEGERS, integer_of(sizeof(type), (type)-1 < (type)1))
    INTEGER(MPI_INT, int);
    add(MPI_DOUBLE, DOOR_FLOATS, CASTELL_DOUBLE);
    add(MPI_FLOAT, DOOR_FLOATS, CASTELL_FLOAT);
    add(MPI_BYTE, DOOR_BYTES, CASTELL_UINT8);
    add(MPI_CHAR, DOOR_NOTHING, 0);
    INTEGER(MPI_LONG, long);
    INTEGER(MPI_UNSIGNED, unsigned);
    INTEGER(MPI_UNSIGNED_LONG, unsigned long);
    INTEGER(MPI_LONG_LONG, long long);
    INTEGER(MPI_UNSIGNED_LONG_LONG, unsigned long long);
    INTEGER(MPI_SHORT, short);
    INTEGER(MPI_UNSIGNED_SHORT, unsigned short);
    INTEGER(MPI_SIGNED_CHAR, signed char);
    INTEGER(MPI_UNSIGNED_CHAR, unsigned char);
    INTEGER(MPI_INT8_T, int8_t);
    INTEGER(MPI_INT16_T, int16_t);
    INTEGER(MPI_INT32_T, int32_t);
    INTEGER(MPI_INT64_T, int64_t);
    INTEGER(MPI_UINT8_T, uint8_t);
    INTEGER(MPI_UINT16_T, uint16_t);
    INTEGER(MPI_UINT32_T, uint32_t);
    INTEGER(MPI_UINT64_T, uint64_t);
    INTEGER(MPI_AINT, MPI_Aint);
    INTEGER(MPI_COUNT, MPI_Count);
    INTEGER(MPI_OFFSET, MPI_Offset);
#undef INTEGER
    add(MPI_LONG_DOUBLE, DOOR_FLOATS, 0);
    add(MPI_C_BOOL, DOOR_LOGICALS, CASTELL_BOOL);
    add(MPI_WCHAR, DOOR_NOTHING, 0);
    add(MPI_C_FLOAT_COMPLEX, DOOR_COMPLEX, CASTELL_COMPLEX_FLOAT);
    add(MPI_C_DOUBLE_COMPLEX, DOOR_COMPLEX, CASTELL_COMPLEX_DOUBLE);
    add(MPI_C_LONG_DOUBLE_COMPLEX, DOOR_COMPLEX, 0);
    add(MPI_CXX_BOOL, DOOR_LOGICALS, CASTELL_BOOL);
    add(MPI_CXX_FLOAT_COMPLEX, DOOR_COMPLEX, CASTELL_COMPLEX_FLOAT);
    add(MPI_CXX_DOUBLE_COMPLEX, DOOR_COMPLEX, CASTELL_COMPLEX_DOUBLE);
    add(MPI_CXX_LONG_DOUBLE_COMPLEX, DOOR_COMPLEX, 0);
    add(MPI_2INT, DOOR_PAIRS, CASTELL_INT32_INT);
    add(MPI_FLOAT_INT, DOOR_PAIRS, CASTELL_FLOAT_INT);
    /* Their places are ints with a gap. */
    add(MPI_DOUBLE_INT, DOOR_PAIRS, 0);
    add(MPI_LONG_INT, DOOR_PAIRS, 0);
    add(MPI_SHORT_INT, DOOR_PAIRS, 0);
    add(MPI_LONG_DOUBLE_INT, DOOR_PAIRS, 0);
    add(MPI_PACKED, DOOR_NOTHING, 0);
    add_fortran();
}

static int forget(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)extra;
    __atomic_fetch_add(&freed, 1, __ATOMIC_RELEASE);
    free(value);
    return MPI_SUCCESS;
}

void door_types_start(void)
{
    add_predefined();
    below_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget, &keyval, NULL);
}

void door_types_stop(void)
{
    below_Type_free_keyval(&keyval);
}

/* Whether the MPI packs bytes in the order in which they lie: tried out, with each byte of their numbers. */
static int packs_in_order(MPI_Datatype handle, const struct door_type *type)
{
    MPI_Count bytes = type->size;
    if (!type->is_dense || type->true_lb != type->lb || bytes > LOOKED_AT_MAX)
        return 0;
    unsigned char *numbers = malloc((size_t)bytes), *packed = malloc((size_t)bytes);
    int is_in_order = numbers && packed;
    for (int shift = 0; is_in_order && (shift == 0 || (bytes - 1) >> shift); shift += 8) {
        for (MPI_Count at = 0; at < bytes; at++)
            numbers[at] = (unsigned char)(at >> shift);
        is_in_order = !door_pack((char *)numbers - type->true_lb, 1, handle, packed, bytes) &&
                      !memcmp(numbers, packed, (size_t)bytes);
    }
    free(numbers);
    free(packed);
    return is_in_order;
}

static const struct door_type *look(MPI_Datatype handle)
{
    for (int at = 0; at < predefined_count; at++)
        if (predefined[at].handle == handle)
            return &predefined[at].type;
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    struct door_type *type = NULL;
    int is_there = 0;
    pthread_mutex_lock(&making);
    if (!below_Type_get_attr(handle, keyval, &type, &is_there) && !is_there) {
        type = calloc(1, sizeof *type);
        if (type && !measure(handle, type)) {
            type->is = DOOR_DERIVED;
            type->is_contiguous = type->size == 0 || packs_in_order(handle, type);
        }
        if (type && (!type->is_valid || below_Type_set_attr(handle, keyval, type))) {
            free(type);
            type = NULL;
        }
    } else if (!is_there) {
        type = NULL;
    }
    pthread_mutex_unlock(&making);
    return type;
}

const struct door_type *door_type_of(MPI_Datatype handle)
{
    if (handle == MPI_DATATYPE_NULL)
        return NULL;
    struct door_seen *seen = &door_seen[door_seen_at(handle)];
    uint64_t now = __atomic_load_n(&freed, __ATOMIC_ACQUIRE);
    if (seen->handle == handle && seen->freed == now && seen->type)
        return seen->type;
    const struct door_type *type = look(handle);
    int is_plain = type && type->is != DOOR_DERIVED && type->is_contiguous && type->lb == 0;
    *seen = (struct door_seen){handle, now, type, is_plain ? type : NULL};
    return type;
}

const struct door_type *door_plain_type(MPI_Datatype handle)
{
    return door_type_of(handle) ? door_seen[door_seen_at(handle)].plain : NULL;
}

/* How many elements one call of MPI_Pack takes. */
static int portion(MPI_Count count, MPI_Count size)
{
    MPI_Count most = size > 0 ? PACKED_MAX / size : PACKED_MAX;
    most = most > 0 ? most : 1;
    return (int)(count < most ? count : most);
}

int door_pack(const void *from, MPI_Count count, MPI_Datatype handle, void *to, MPI_Count bytes)
{
    MPI_Count size = 0, lb, extent;
    int error = below_Type_size_x(handle, &size);
    if (!error)
        error = below_Type_get_extent_x(handle, &lb, &extent);
    while (!error && count > 0 && size > 0) {
        int some = portion(count, size), at = 0;
        MPI_Count room = bytes < PACKED_MAX ? bytes : PACKED_MAX;
        error = below_Pack(from, some, handle, to, (int)room, &at, MPI_COMM_SELF);
        from = (const char *)from + some * extent;
        to = (char *)to + some * size;
        count -= some;
        bytes -= some * size;
    }
    return error;
}

int door_unpack(const void *from, MPI_Count bytes, void *to, MPI_Count count, MPI_Datatype handle)
{
    MPI_Count size = 0, lb, extent;
    int error = below_Type_size_x(handle, &size);
    if (!error)
        error = below_Type_get_extent_x(handle, &lb, &extent);
    while (!error && count > 0 && size > 0) {
        int some = portion(count, size), at = 0;
        MPI_Count have = bytes < PACKED_MAX ? bytes : PACKED_MAX;
        error = below_Unpack(from, (int)have, &at, to, some, handle, MPI_COMM_SELF);
        from = (const char *)from + some * size;
        to = (char *)to + some * extent;
        count -= some;
        bytes -= some * size;
    }
    return error;
}
