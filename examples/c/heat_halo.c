/* Heat in a plate that ranks share row by row (Jacobi). In each step a rank's blocks of rows are tasks, and so is the exchange of edge
 * rows with the neighbours: a GOAL schedule, which that task starts and which its completion waits for. Blocks inside need none of
 * the neighbours' rows and are computed meanwhile. In the end the graph is in charge: each rank's sum is a task that is a
 * vertex, in front of the message that takes it to rank 0.
 *
 * Both ways are timed in turns: with waits for everything before and after each exchange, and with nothing but the data's order.
 *
 *     castell launch -n 2 -- ./heat_halo [rows [columns [steps [workers]]]]
 */
#include "../check.h"
#include <castell_vertices.h>
#include <string.h>

enum { BLOCK_ROWS = 8, ABOVE = 1, BELOW = 2, TURNS = 5 };

static int rank, size, rows = 64, columns = 128, steps = 20; /* of the whole plate, without its border */
static int first, own;                                       /* this rank's rows: from `first` on, `own` of them */
static int overlaps;
static double *plate[2];             /* the rank's rows with one more above and below, before and after a step */
static GOAL_Schedule exchange[2];    /* of each plate's edge rows */

static double *row_of(double *points, int row) { return points + (size_t)row * (size_t)(columns + 2); }
static size_t bytes_of(int count) { return (size_t)count * (size_t)(columns + 2) * sizeof(double); }

static void step(double *after, double *before, int from, int count) {
    for (int row = from; row < from + count; row++) {
        const double *above = row_of(before, row - 1), *here = row_of(before, row), *below = row_of(before, row + 1);
        for (int column = 1; column <= columns; column++) {
            row_of(after, row)[column] = 0.25 * (above[column] + here[column - 1] + here[column + 1] + below[column]);
        }
    }
}

/* The border stays as it is: cold, but for the edge above. */
static double *cold_plate(int count, int has_upper_edge) {
    double *points = calloc(1, bytes_of(count + 2));
    CHECK(points != NULL);
    for (int column = 0; has_upper_edge && column < columns + 2; column++) points[column] = 100.0;
    return points;
}

static castell_access rows_in(int kind, double *points, int from, int count) {
    castell_access access = {kind, row_of(points, from), bytes_of(count), 0, 0, NULL};
    return access;
}

static GOAL_Schedule compile_exchange(double *points) {
    GOAL_Graph graph = GOAL_CreateGraph();
    int64_t bytes = (int64_t)bytes_of(1);
    if (rank > 0) {
        GOAL_Send(graph, row_of(points, 1), bytes, rank - 1, ABOVE);
        GOAL_Recv(graph, row_of(points, 0), bytes, rank - 1, BELOW);
    }
    if (rank + 1 < size) {
        GOAL_Send(graph, row_of(points, own), bytes, rank + 1, BELOW);
        GOAL_Recv(graph, row_of(points, own + 1), bytes, rank + 1, ABOVE);
    }
    GOAL_Schedule schedule = GOAL_Compile(graph);
    GOAL_FreeGraph(graph);
    CHECK(schedule != NULL);
    return schedule;
}

typedef struct {
    double *after, *before;
    int from, count;
} block;

static void compute(void *argument) {
    block *it = argument;
    step(it->after, it->before, it->from, it->count);
}

/* Returns at once; what needs the rows that come gets them when the run has ended. */
static void start_exchange(void *argument) {
    GOAL_Handle run = castell_run_held(*(GOAL_Schedule *)argument);
    CHECK(run != NULL && GOAL_FreeHandle(run) == GOAL_SUCCESS);
}

static void all_steps(void *argument) {
    (void)argument;
    castell_task exchanges = {0}, computes = {0};
    exchanges.label = "exchange", exchanges.priority = 1, computes.label = "step";
    for (int count = 0; count < steps; count++) {
        double *before = plate[count % 2], *after = plate[1 - count % 2];
        castell_access edges[] = {rows_in(CASTELL_IN, before, 1, 1), rows_in(CASTELL_IN, before, own, 1),
                                  rows_in(CASTELL_OUT, before, 0, 1), rows_in(CASTELL_OUT, before, own + 1, 1)};
        CHECK(castell_submit(start_exchange, &exchange[count % 2], sizeof(GOAL_Schedule), edges, 4, &exchanges) == 0);
        if (!overlaps) CHECK(castell_taskwait() == 0);
        for (int from = 1; from <= own; from += BLOCK_ROWS) {
            block it = {after, before, from, own + 1 - from < BLOCK_ROWS ? own + 1 - from : BLOCK_ROWS};
            castell_access accesses[] = {rows_in(CASTELL_OUT, after, from, it.count),
                                         rows_in(CASTELL_IN, before, from - 1, it.count + 2)};
            CHECK(castell_submit(compute, &it, sizeof it, accesses, 2, &computes) == 0);
        }
        if (!overlaps) CHECK(castell_taskwait() == 0);
    }
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* The median, of which the array is sorted afterwards. */
static double median(double *times) {
    qsort(times, TURNS, sizeof *times, by_size);
    return times[TURNS / 2];
}

static double seconds(castell_runtime *runtime, int with_overlap) {
    for (int side = 0; side < 2; side++) {
        free(plate[side]);
        plate[side] = cold_plate(own, rank == 0);
        if (exchange[side] != NULL) CHECK(GOAL_FreeSchedule(exchange[side]) == GOAL_SUCCESS);
        exchange[side] = compile_exchange(plate[side]);
    }
    overlaps = with_overlap;
    double begun = GOAL_Wtime();
    CHECK(castell_run(runtime, all_steps, NULL) == 0);
    return GOAL_Wtime() - begun;
}

/* ------------------------------------------------------------------------------------------- tasks that are vertices */

static double sum, *sums;

static void sum_rows(void *argument) {
    (void)argument;
    sum = 0;
    for (int row = 1; row <= own; row++) {
        for (int column = 1; column <= columns; column++) sum += row_of(plate[steps % 2], row)[column];
    }
}

static void print_mean(void *argument) {
    (void)argument;
    double total = 0;
    for (int other = 0; other < size; other++) total += sums[other];
    printf("mean %.6f after %d steps over %d x %d points on %d ranks\n", total / rows / columns, steps, rows, columns, size);
}

static void mean_by_graph(castell_runtime *runtime) {
    castell_vertex summing = {runtime, sum_rows, NULL, "sum"}, printing = {runtime, print_mean, NULL, "mean"};
    GOAL_Graph graph = GOAL_CreateGraph();
    GOAL_Vertex summed = GOAL_Call(graph, castell_vertex_task, &summing);
    GOAL_Vertex sent = GOAL_Send(graph, &sum, sizeof sum, 0, 0);
    GOAL_Requires(graph, summed, sent);
    if (rank == 0) {
        sums = calloc((size_t)size, sizeof *sums);
        GOAL_Vertex printed = GOAL_Call(graph, castell_vertex_task, &printing);
        for (int other = 0; other < size; other++) {
            GOAL_Requires(graph, GOAL_Recv(graph, &sums[other], sizeof sum, other, 0), printed);
        }
    }
    GOAL_Schedule schedule = GOAL_Compile(graph);
    GOAL_FreeGraph(graph);
    run_to_end(schedule);
    GOAL_FreeSchedule(schedule);
    free(sums);
}

static int number(int argc, char **argv, int at, int otherwise) { return argc > at ? atoi(argv[at]) : otherwise; }

int main(int argc, char **argv) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    rank = GOAL_MyRank(), size = GOAL_GroupSize();
    rows = number(argc, argv, 1, rows), columns = number(argc, argv, 2, columns), steps = number(argc, argv, 3, steps);
    CHECK(rows >= size && columns > 0 && steps > 0);
    first = rank * rows / size;
    own = (rank + 1) * rows / size - first;

    castell_runtime *runtime = NULL;
    castell_options options = {0};
    options.workers = (unsigned)number(argc, argv, 4, 2);
    CHECK(castell_start(&runtime, &options) == 0);
    double apart[TURNS], together[TURNS];
    seconds(runtime, 1); /* warms up */
    for (int turn = 0; turn < TURNS; turn++) apart[turn] = seconds(runtime, 0), together[turn] = seconds(runtime, 1);

    double *serial[2] = {cold_plate(rows, 1), cold_plate(rows, 1)};
    for (int count = 0; count < steps; count++) step(serial[1 - count % 2], serial[count % 2], 1, rows);
    for (int row = 1; row <= own; row++) {
        double *expected = row_of(serial[steps % 2], first + row);
        CHECK(memcmp(row_of(plate[steps % 2], row), expected, bytes_of(1)) == 0);
    }
    printf("rank %d: the serial result, bit by bit; medians of %d turns: %.3f ms with waits, %.3f ms overlapping\n", rank,
           TURNS, median(apart) * 1e3, median(together) * 1e3);
    mean_by_graph(runtime);
    CHECK(castell_stop(runtime) == 0);
    for (int side = 0; side < 2; side++) {
        CHECK(GOAL_FreeSchedule(exchange[side]) == GOAL_SUCCESS);
        free(plate[side]);
        free(serial[side]);
    }
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
