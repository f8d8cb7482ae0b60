/* compare.c: every collective operation through MPI_X, compared with what the MPI of this machine gives for the same data.
 *
 * Run twice: without the door with the argument `write FILE`, and with it with `read FILE`: the calls, types, roots, forms and data
 * come from a seed, so both runs make the same calls, and each rank's results are compared byte by byte. Numbers are small and
 * whole, so that no order of summation matters.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (1 << 20)
#define FORMS 3

static unsigned char send[BYTES], recv[BYTES];
static uint64_t seed, state;
static FILE *file;
static int is_reading, rank_of_world, calls, wrong;
static char what[256];

static unsigned draw(unsigned end)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % end;
}

static void fail(const char *why)
{
    fprintf(stderr, "rank %d, seed %llu, call %d: %s: %s\n", rank_of_world, (unsigned long long)seed, calls, what, why);
    if (++wrong > 5)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

/* What the rank has now is what it had in the other run. */
static void compare(const void *data, size_t bytes)
{
    static unsigned char there[BYTES];
    if (!is_reading) {
        fwrite(data, 1, bytes, file);
        return;
    }
    if (fread(there, 1, bytes, file) != bytes)
        fail("the other run made fewer calls");
    for (size_t at = 0; at < bytes; at++)
        if (there[at] != ((const unsigned char *)data)[at]) {
            char text[100];
            snprintf(text, sizeof text, "byte %zu is %02x, without the door %02x", at, ((const unsigned char *)data)[at],
                     there[at]);
            fail(text);
            return;
        }
}

/* ------------------------------------------------------------------------------------------------------------ Types */

/* Types of data that is moved: contiguous ones, with gaps, out of order, with bounds of their own. */
static MPI_Datatype moved[8];
enum { MOVED = 8 };

static void make_types(void)
{
    int lengths[] = {1, 2}, places[] = {3, 0};
    MPI_Datatype vector;
    moved[0] = MPI_INT;
    moved[1] = MPI_CHAR;
    moved[2] = MPI_DOUBLE;
    MPI_Type_contiguous(3, MPI_SHORT, &moved[3]);
    MPI_Type_vector(2, 1, 3, MPI_INT, &moved[4]);
    MPI_Type_indexed(2, lengths, places, MPI_SHORT, &moved[5]);
    MPI_Type_vector(2, 1, 2, MPI_CHAR, &vector);
    MPI_Type_create_resized(vector, -1, 7, &moved[6]);
    MPI_Type_free(&vector);
    moved[7] = MPI_DOUBLE_INT;
    for (int at = 3; at < 7; at++)
        MPI_Type_commit(&moved[at]);
}

/* A type of so many bytes or a multiple of it that the other side may use: bytes. */
static MPI_Count size_of(MPI_Datatype type)
{
    int size;
    MPI_Type_size(type, &size);
    return size;
}

/* ------------------------------------------------------------------------------------------------------- Operators */

/* Kinds of types: 0 integers, 1 floats, 2 logical, 3 complex, 4 pairs, 5 bytes. */
static void set(unsigned char *at, MPI_Datatype type, int kind, unsigned value)
{
    int bytes;
    MPI_Type_size(type, &bytes);
    if (kind == 1 || kind == 3) {
        double number = value;
        float half = (float)value;
        int single = type == MPI_FLOAT || type == MPI_C_FLOAT_COMPLEX;
        if (type == MPI_LONG_DOUBLE) {
            long double wide = value;
            memset(at, 0, sizeof wide);
            memcpy(at, &wide, 10);
            return;
        }
        memcpy(at, single ? (void *)&half : (void *)&number, single ? 4 : 8);
        if (kind == 3)
            memcpy(at + (single ? 4 : 8), single ? (void *)&half : (void *)&number, single ? 4 : 8);
    } else if (kind == 4) {
        int place = (int)value % 3;
        if (type == MPI_2INT) {
            memcpy(at, &value, 4);
            memcpy(at + 4, &place, 4);
        } else if (type == MPI_FLOAT_INT) {
            float number = (float)value;
            memcpy(at, &number, 4);
            memcpy(at + 4, &place, 4);
        } else if (type == MPI_SHORT_INT) {
            short number = (short)value;
            memset(at, 0, 8);
            memcpy(at, &number, 2);
            memcpy(at + 4, &place, 4);
        } else {
            double number = value;
            long whole = value;
            memset(at, 0, 16);
            memcpy(at, type == MPI_LONG_INT ? (void *)&whole : (void *)&number, 8);
            memcpy(at + 8, &place, 4);
        }
    } else {
        memset(at, 0, (size_t)bytes);
        at[0] = (unsigned char)(kind == 2 ? value & 1 : value);
    }
}

/* The right one unless the left one is odd: associative enough to see the order, for pairs (first, last). */
static void keep_ends(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const int *left = in;
    int *right = inout;
    (void)type;
    for (int at = 0; at < *count; at++)
        right[3 * at] = left[3 * at];
}

static void add_ints(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int at = 0; at < *count; at++)
        ((int *)inout)[at] += ((int *)in)[at];
}

/* ------------------------------------------------------------------------------------------------------------ Calls */

static void fill(unsigned char *data, size_t bytes)
{
    uint64_t kept = state;
    state ^= (uint64_t)(rank_of_world + 1) * 0x9e3779b97f4a7c15u;
    for (size_t at = 0; at < bytes; at++)
        data[at] = (unsigned char)draw(256);
    state = kept;
    draw(2);
}

/* Waits in one of the ways. */
static void finish(MPI_Request *request)
{
    int flag = 0, index, done;
    MPI_Status status;
    switch (draw(6)) {
    case 0: MPI_Wait(request, MPI_STATUS_IGNORE); break;
    case 1: while (!flag) MPI_Test(request, &flag, &status); break;
    case 2: MPI_Waitall(1, request, MPI_STATUSES_IGNORE); break;
    case 3: MPI_Waitany(1, request, &index, &status); break;
    case 4: while (!flag) MPI_Testall(1, request, &flag, &status); break;
    default: MPI_Waitsome(1, request, &done, &index, &status); break;
    }
}

#define MAKE(call, started)                 \
    do {                                    \
        MPI_Request request;                \
        if (form == 0) {                    \
            call;                           \
        } else {                            \
            started;                        \
            finish(&request);               \
            if (request != MPI_REQUEST_NULL) \
                fail("a request that is over is not null"); \
        }                                   \
    } while (0)

static const char *const names[] = {"bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv",
                                    "alltoall", "alltoallv", "alltoallw", "barrier"};

static void move(MPI_Comm comm, int size, int rank)
{
    unsigned operation = draw(11);
    int form = (int)draw(2), in_place = draw(3) == 0, root = (int)draw((unsigned)size);
    int count = (int)(draw(8) == 0 ? 0 : draw(4) == 0 ? draw(1500) : draw(9));
    MPI_Datatype type = moved[draw(MOVED)];
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type, &lb, &extent);
    int counts[8], starts[8], byte_starts[8], next = 1, bytes = (int)size_of(type);
    MPI_Datatype types[8], as_bytes = MPI_BYTE;
    for (int at = 0; at < size; at++) {
        counts[at] = count ? (int)draw((unsigned)count + 1) : 0;
        starts[at] = next;
        next += counts[at] + (int)draw(2);
        types[at] = type;
    }
    for (int at = 0; at < size; at++)
        byte_starts[at] = (int)(starts[at] * extent);
    size_t all = ((size_t)(count + 2) * (size_t)size + 20) * (size_t)extent;
    fill(send, all);
    fill(recv, all);
    /* One side may have the same data as bytes. */
    int sends_bytes = draw(4) == 0 && !in_place;
    MPI_Datatype sent = sends_bytes ? as_bytes : type;
    int sent_count = sends_bytes ? count * bytes : count, own = sends_bytes ? counts[rank] * bytes : counts[rank];
    unsigned char *to = recv + 16, *from = send + 16;
    const void *data = in_place ? MPI_IN_PLACE : from;
    snprintf(what, sizeof what, "%s of %d, type of %d bytes, extent %ld, root %d of %d%s%s%s", names[operation], count, bytes,
             (long)extent, root, size, form ? ", started" : "", in_place ? ", in place" : "", sends_bytes ? ", as bytes" : "");
#define AT_ROOT(pointer) (in_place && rank == root ? MPI_IN_PLACE : (void *)(pointer))
    switch (operation) {
    case 0: MAKE(MPI_Bcast(to, count, type, root, comm), MPI_Ibcast(to, count, type, root, comm, &request)); break;
    case 1:
        MAKE(MPI_Gather(AT_ROOT(from), sent_count, sent, to, count, type, root, comm),
             MPI_Igather(AT_ROOT(from), sent_count, sent, to, count, type, root, comm, &request));
        break;
    case 2:
        MAKE(MPI_Gatherv(AT_ROOT(from), own, sent, to, counts, starts, type, root, comm),
             MPI_Igatherv(AT_ROOT(from), own, sent, to, counts, starts, type, root, comm, &request));
        break;
    case 3:
        MAKE(MPI_Scatter(from, sent_count, sent, AT_ROOT(to), count, type, root, comm),
             MPI_Iscatter(from, sent_count, sent, AT_ROOT(to), count, type, root, comm, &request));
        break;
    case 4:
        MAKE(MPI_Scatterv(from, counts, starts, type, AT_ROOT(to), counts[rank], type, root, comm),
             MPI_Iscatterv(from, counts, starts, type, AT_ROOT(to), counts[rank], type, root, comm, &request));
        break;
    case 5:
        MAKE(MPI_Allgather(data, sent_count, sent, to, count, type, comm),
             MPI_Iallgather(data, sent_count, sent, to, count, type, comm, &request));
        break;
    case 6:
        /* MPICH 4.0.2 forgets the displacement where there is one rank. */
        starts[0] = size == 1 ? 0 : starts[0];
        MAKE(MPI_Allgatherv(data, own, sent, to, counts, starts, type, comm),
             MPI_Iallgatherv(data, own, sent, to, counts, starts, type, comm, &request));
        break;
    case 7:
        MAKE(MPI_Alltoall(data, sent_count, sent, to, count, type, comm),
             MPI_Ialltoall(data, sent_count, sent, to, count, type, comm, &request));
        break;
    case 8: case 9: {
        /* Each pair has a size of its own, that of the lower and the higher rank. */
        int pairs[8];
        next = 0;
        for (int at = 0; at < size; at++) {
            pairs[at] = count ? (rank * at + rank + at) % (count + 1) : 0;
            starts[at] = next;
            byte_starts[at] = (int)(next * extent);
            next += pairs[at];
        }
        if (operation == 8)
            MAKE(MPI_Alltoallv(data, pairs, starts, type, to, pairs, starts, type, comm),
                 MPI_Ialltoallv(data, pairs, starts, type, to, pairs, starts, type, comm, &request));
        else
            MAKE(MPI_Alltoallw(data, pairs, byte_starts, types, to, pairs, byte_starts, types, comm),
                 MPI_Ialltoallw(data, pairs, byte_starts, types, to, pairs, byte_starts, types, comm, &request));
        break;
    }
    default: MAKE(MPI_Barrier(comm), MPI_Ibarrier(comm, &request));
    }
    compare(recv, all < BYTES ? all : BYTES);
}

static MPI_Datatype triple, gappy;
static MPI_Op ends, sums;

static void reduce(MPI_Comm comm, int size, int rank)
{
    static const char *const reductions[] = {"reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan"};
    const struct {
        MPI_Datatype type;
        int kind;
    } types[] = {{MPI_INT, 0}, {MPI_LONG, 0}, {MPI_UNSIGNED_CHAR, 0}, {MPI_SHORT, 0}, {MPI_UINT64_T, 0}, {MPI_FLOAT, 1},
                 {MPI_DOUBLE, 1}, {MPI_LONG_DOUBLE, 1}, {MPI_C_BOOL, 2}, {MPI_C_DOUBLE_COMPLEX, 3},
                 {MPI_C_FLOAT_COMPLEX, 3}, {MPI_2INT, 4}, {MPI_DOUBLE_INT, 4}, {MPI_FLOAT_INT, 4}, {MPI_LONG_INT, 4},
                 {MPI_SHORT_INT, 4}, {MPI_BYTE, 5}, {triple, 6}, {gappy, 7}, {MPI_INT, 8}};
    const MPI_Op all[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
    unsigned which = draw(sizeof types / sizeof *types), operation = draw(6);
    int kind = types[which].kind, form = (int)draw(2), in_place = draw(3) == 0, root = (int)draw((unsigned)size);
    MPI_Datatype type = types[which].type;
    MPI_Op op = kind == 0 ? all[draw(10)] : kind == 1 ? all[draw(4)] : kind == 2 ? all[4 + draw(3)]
              : kind == 3 ? all[3 * draw(2)] : kind == 4 ? (draw(2) ? MPI_MINLOC : MPI_MAXLOC) : kind == 5 ? all[7 + draw(3)]
              : kind == 8 ? sums : ends;
    int each = (int)(draw(8) == 0 ? 0 : draw(5) == 0 ? draw(3000) : draw(9)), counts[8], total = 0;
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type, &lb, &extent);
    for (int at = 0; at < size; at++)
        total += counts[at] = each ? (int)draw((unsigned)each + 1) : 0;
    size_t elements = (size_t)(each > total ? each : total);
    if (operation == 3 && (size_t)(each * size) > elements)
        elements = (size_t)(each * size);
    if (elements < 1)
        elements = 1;
    fill(send, elements * (size_t)extent);
    fill(recv, elements * (size_t)extent);
    for (size_t at = 0; kind < 6 && at < elements; at++) {
        set(send + at * (size_t)extent, type, kind, (send[at * (size_t)extent] & 3) + 1);
        set(recv + at * (size_t)extent, type, kind, (recv[at * (size_t)extent] & 3) + 1);
    }
    const void *data = in_place ? MPI_IN_PLACE : send;
    snprintf(what, sizeof what, "%s of %d, type %u, kind %d, root %d of %d%s%s", reductions[operation], each, which, kind,
             root, size, form ? ", started" : "", in_place ? ", in place" : "");
    switch (operation) {
    case 0:
        MAKE(MPI_Reduce(AT_ROOT(send), recv, each, type, op, root, comm),
             MPI_Ireduce(AT_ROOT(send), recv, each, type, op, root, comm, &request));
        /* Others' is not looked at. */
        if (rank != root)
            return;
        break;
    case 1: MAKE(MPI_Allreduce(data, recv, each, type, op, comm), MPI_Iallreduce(data, recv, each, type, op, comm, &request)); break;
    case 2:
        MAKE(MPI_Reduce_scatter(data, recv, counts, type, op, comm),
             MPI_Ireduce_scatter(data, recv, counts, type, op, comm, &request));
        elements = (size_t)counts[rank];
        break;
    case 3:
        MAKE(MPI_Reduce_scatter_block(data, recv, each, type, op, comm),
             MPI_Ireduce_scatter_block(data, recv, each, type, op, comm, &request));
        elements = (size_t)each;
        break;
    case 4: MAKE(MPI_Scan(data, recv, each, type, op, comm), MPI_Iscan(data, recv, each, type, op, comm, &request)); break;
    default:
        MAKE(MPI_Exscan(data, recv, each, type, op, comm), MPI_Iexscan(data, recv, each, type, op, comm, &request));
        if (rank == 0)
            return;
    }
    /* Of extended numbers and pairs what lies in their gaps is nobody's. */
    if (type != MPI_LONG_DOUBLE && kind != 4) {
        compare(recv, elements * (size_t)extent);
        return;
    }
    for (size_t at = 0; at < elements; at++) {
        unsigned char *element = recv + at * (size_t)extent;
        int bytes = type == MPI_LONG_DOUBLE ? 10 : type == MPI_SHORT_INT ? 2 : type == MPI_2INT || type == MPI_FLOAT_INT ? 8 : 12;
        compare(element, (size_t)bytes);
        if (type == MPI_SHORT_INT)
            compare(element + 4, 4);
    }
}

/* Topologies: a torus of one or two dimensions, a line, and a graph that is not symmetric. (A rank that is its own neighbour along
 * two dimensions gets the parts in another order from MPICH 4.0.2 than the standard says.) */
static void neighbours(MPI_Comm comm, int size, int rank)
{
    int sizes[] = {size, 1}, periodic[] = {draw(2) == 0, 1}, dimensions = size == 1 ? 1 : 1 + (int)draw(2), kind = (int)draw(2);
    int form = (int)draw(2), in = 0, out = 0, weighted, count = (int)draw(20);
    int sources[8], destinations[8];
    MPI_Comm made;
    if (kind == 0) {
        MPI_Cart_create(comm, dimensions, sizes, periodic, 0, &made);
        in = out = 2 * dimensions;
    } else {
        for (int distance = 0; distance < size; distance += 2) {
            destinations[out++] = (rank + distance) % size;
            sources[in++] = (rank - distance + size) % size;
        }
        MPI_Dist_graph_create_adjacent(comm, in, sources, MPI_UNWEIGHTED, out, destinations, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                       &made);
        MPI_Dist_graph_neighbors_count(made, &in, &out, &weighted);
    }
    size_t bytes = sizeof(int) * (size_t)(count + 1) * 8;
    fill(send, bytes);
    fill(recv, bytes);
    unsigned operation = draw(2);
    /* Where both neighbours along a dimension are one rank, Open MPI 4.1 gives other results non-blocking than blocking. */
    form = kind == 0 && operation ? 0 : form;
    snprintf(what, sizeof what, "neighbor_%s of %d, %d dimensions%s", operation ? "alltoall" : "allgather", count,
             kind ? 0 : dimensions, form ? ", started" : "");
    if (operation == 0)
        MAKE(MPI_Neighbor_allgather(send, count, MPI_INT, recv, count, MPI_INT, made),
             MPI_Ineighbor_allgather(send, count, MPI_INT, recv, count, MPI_INT, made, &request));
    else
        MAKE(MPI_Neighbor_alltoall(send, count, MPI_INT, recv, count, MPI_INT, made),
             MPI_Ineighbor_alltoall(send, count, MPI_INT, recv, count, MPI_INT, made, &request));
    compare(recv, bytes);
    MPI_Comm_free(&made);
}

int main(int argc, char **argv)
{
    int size, provided;
    MPI_Init_thread(&argc, &argv, draw(2) ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_of_world);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 5) {
        if (rank_of_world == 0)
            fprintf(stderr, "usage: compare write|read FILE SEED CALLS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char name[1000];
    snprintf(name, sizeof name, "%s.%d", argv[2], rank_of_world);
    is_reading = !strcmp(argv[1], "read");
    file = fopen(name, is_reading ? "r" : "w");
    state = seed = strtoull(argv[3], NULL, 10);
    if (!file || size > 8)
        MPI_Abort(MPI_COMM_WORLD, 2);
    make_types();
    int lengths[] = {1, 1};
    MPI_Type_contiguous(3, MPI_INT, &triple);
    MPI_Type_indexed(2, lengths, (int[]){0, 2}, MPI_INT, &gappy);
    MPI_Type_commit(&triple);
    MPI_Type_commit(&gappy);
    MPI_Op_create(keep_ends, 0, &ends);
    MPI_Op_create(add_ints, 1, &sums);
    MPI_Comm comms[4] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    MPI_Comm_split(MPI_COMM_WORLD, rank_of_world % 2, -rank_of_world, &comms[2]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[3]);
    for (calls = 0; calls < atoi(argv[4]); calls++) {
        /* All ranks draw the same, whatever they did before. */
        state = seed * 1000003u + (uint64_t)calls * 7919u;
        for (int at = 0; at < 4; at++)
            draw(2);
        MPI_Comm comm = comms[draw(10) % 5 % 4];
        int ranks, rank;
        MPI_Comm_size(comm, &ranks);
        MPI_Comm_rank(comm, &rank);
        switch (draw(10)) {
        case 0: neighbours(comm, ranks, rank); break;
        case 1: case 2: case 3: case 4: reduce(comm, ranks, rank); break;
        default: move(comm, ranks, rank);
        }
    }
    MPI_Comm_free(&comms[2]);
    MPI_Comm_free(&comms[3]);
    fclose(file);
    MPI_Finalize();
    return wrong != 0;
}
