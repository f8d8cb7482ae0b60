/* ops.c: operators. What castell reduces itself it is told by its own types and operators; all else, and operators of the program,
 * are functions over elements of which castell knows the size only, by which the MPI below reduces two vectors.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "below.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Operators that castell was told of. */
#define OPERATORS 256

struct operator {
    MPI_Op op;
    MPI_Datatype type;
    int commutes;
    MPI_Count lb, extent;
    castell_op castell;
};

static struct operator *operators[OPERATORS];
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

/* Which of a class's types have which operators, as the standard has it. */
enum {
    IN_INTEGERS = 1 << DOOR_INTEGERS, IN_FLOATS = 1 << DOOR_FLOATS, IN_LOGICALS = 1 << DOOR_LOGICALS,
    IN_COMPLEX = 1 << DOOR_COMPLEX, IN_BYTES = 1 << DOOR_BYTES, IN_PAIRS = 1 << DOOR_PAIRS
};

/* A predefined operator; 0: it is none of those that reduce. */
static int predefined_op(MPI_Op op, castell_op *found)
{
    const struct {
        MPI_Op op;
        castell_op castell;
        int classes;
    } table[] = {
        {MPI_SUM, CASTELL_SUM, IN_INTEGERS | IN_FLOATS | IN_COMPLEX},
        {MPI_MAX, CASTELL_MAX, IN_INTEGERS | IN_FLOATS},
        {MPI_MIN, CASTELL_MIN, IN_INTEGERS | IN_FLOATS},
        {MPI_PROD, CASTELL_PRODUCT, IN_INTEGERS | IN_FLOATS | IN_COMPLEX},
        {MPI_LAND, CASTELL_LOGICAL_AND, IN_INTEGERS | IN_LOGICALS},
        {MPI_LOR, CASTELL_LOGICAL_OR, IN_INTEGERS | IN_LOGICALS},
        {MPI_LXOR, CASTELL_LOGICAL_XOR, IN_INTEGERS | IN_LOGICALS},
        {MPI_BAND, CASTELL_BIT_AND, IN_INTEGERS | IN_BYTES},
        {MPI_BOR, CASTELL_BIT_OR, IN_INTEGERS | IN_BYTES},
        {MPI_BXOR, CASTELL_BIT_XOR, IN_INTEGERS | IN_BYTES},
        {MPI_MINLOC, CASTELL_MIN_PLACE, IN_PAIRS},
        {MPI_MAXLOC, CASTELL_MAX_PLACE, IN_PAIRS},
    };
    for (size_t at = 0; at < sizeof table / sizeof *table; at++)
        if (table[at].op == op) {
            *found = table[at].castell;
            return table[at].classes;
        }
    return 0;
}

void door_reduce(const void *left, void *result, MPI_Count count, MPI_Op op, MPI_Datatype type)
{
    const struct door_type *known = door_type_of(type);
    while (count > 0) {
        int some = count < INT_MAX ? (int)count : INT_MAX;
        below_Reduce_local((const char *)left - known->lb, (char *)result - known->lb, some, type, op);
        left = (const char *)left + some * known->extent;
        result = (char *)result + some * known->extent;
        count -= some;
    }
}

/* castell's way to call it. */
static void reduce(const void *left, const void *right, void *result, size_t count, void *context)
{
    const struct operator *operator = context;
    size_t bytes = count * (size_t)operator->extent;
    if (result != left) {
        memcpy(result, right, bytes);
        door_reduce(left, result, (MPI_Count)count, operator->op, operator->type);
        return;
    }
    /* The function writes to its right operand, which is not its own here. */
    char few[512], *copy = bytes <= sizeof few ? few : malloc(bytes);
    if (!copy)
        abort();
    memcpy(copy, right, bytes);
    door_reduce(left, copy, (MPI_Count)count, operator->op, operator->type);
    memcpy(result, copy, bytes);
    if (copy != few)
        free(copy);
}

/* The operator as castell knows it. One that is forgotten here stays where it is: calls that were prepared may have it. */
static castell_op made(MPI_Op op, MPI_Datatype type, const struct door_type *known, int commutes)
{
    size_t bits = (size_t)(uintptr_t)op * 31 + (size_t)(uintptr_t)type;
    struct operator **place = &operators[(bits ^ bits >> 7) % OPERATORS];
    pthread_mutex_lock(&making);
    struct operator *operator = *place;
    if (!operator || operator->op != op || operator->type != type || operator->commutes != commutes ||
        operator->extent != known->extent || operator->lb != known->lb) {
        if (operator)
            castell_op_free(&operator->castell);
        operator = calloc(1, sizeof *operator);
        if (operator) {
            *operator = (struct operator){op, type, commutes, known->lb, known->extent, NULL};
            castell_op_create(reduce, operator, (size_t)known->extent, commutes, &operator->castell);
        }
        *place = operator;
    }
    castell_op found = operator ? operator->castell : NULL;
    pthread_mutex_unlock(&making);
    return found;
}

_Thread_local struct door_operator door_operator;

int door_native(MPI_Op op, MPI_Datatype type)
{
    const struct door_type *known = door_type_of(type);
    castell_op found;
    if (!known || known->is == DOOR_DERIVED || !known->native || op == MPI_OP_NULL ||
        !(predefined_op(op, &found) >> known->is & 1))
        return 0;
    door_operator = (struct door_operator){op, type, known->native, found, (size_t)known->size};
    return 1;
}

int door_op_of(MPI_Op op, MPI_Datatype type, const struct door_type *known, castell_type *element, castell_op *found)
{
    if (op == MPI_OP_NULL || op == MPI_REPLACE || op == MPI_NO_OP)
        return -DOOR_OPERATOR;
    int classes = predefined_op(op, found), commutes = 1;
    if (classes && !(classes >> known->is & 1))
        return -DOOR_OPERATOR;
    if (classes && known->native) {
        *element = known->native;
        return 1;
    }
    if (known->has_overhang || known->extent <= 0)
        return -DOOR_TYPE;
    if (!classes && below_Op_commutative(op, &commutes))
        return -DOOR_OPERATOR;
    *element = (castell_type)(CASTELL_BYTES + known->extent);
    *found = made(op, type, known, commutes);
    return *found ? 2 : -DOOR_OPERATOR;
}
