/* stats.c: what was called, and whether castell made it: a table, or JSON.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "below.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Communicators that are listed one by one; the rest is in the last one. */
#define LISTED_MAX 1000

static struct door_rows *first, *other;
static int listed;
static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;

double door_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The rows of this name, size, hosts and reason: programs that make a communicator in each step want to see one. */
static struct door_rows *rows_of(const char *name, const struct door_comm *comm)
{
    pthread_mutex_lock(&listing);
    struct door_rows **place = &first;
    while (*place && (strcmp((*place)->name, name) || (*place)->size != comm->size || (*place)->hosts != comm->hosts ||
                      (*place)->why != comm->why))
        place = &(*place)->next;
    struct door_rows *found = *place;
    if (!found && listed < LISTED_MAX && (found = calloc(1, sizeof *found))) {
        snprintf(found->name, sizeof found->name, "%s", name);
        found->size = comm->size;
        found->hosts = comm->hosts;
        found->why = comm->why;
        *place = found;
        listed++;
    }
    pthread_mutex_unlock(&listing);
    return found ? found : door_rows_unknown();
}

struct door_rows *door_rows_new(const struct door_comm *comm)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length;
    if (!door_settings.has_stats)
        return NULL;
    below_Comm_get_name(comm->handle, name, &length);
    return rows_of(*name ? name : "without a name", comm);
}

struct door_rows *door_rows_unknown(void)
{
    if (!other) {
        other = calloc(1, sizeof *other);
        if (!other)
            abort();
        snprintf(other->name, sizeof other->name, "others");
        other->why = DOOR_NOT_AGREED;
    }
    return other;
}

static const char *const forms[DOOR_FORMS] = {"blocking", "started", "persistent"};

/* What most calls of a row went below for. */
static const char *why_of(const struct door_row *row)
{
    int most = 0;
    for (int why = 1; why < DOOR_WHYS; why++)
        if (row->whys[why] > (most ? row->whys[most] : 0))
            most = why;
    return door_whys[most];
}

static void each(void (*work)(const struct door_rows *rows, int operation, int form, const struct door_row *row, void *state),
                 void *state)
{
    for (int round = 0; round < 2; round++)
        for (const struct door_rows *rows = round ? other : first; rows; rows = rows->next)
            for (int operation = 0; operation < DOOR_OPERATIONS; operation++)
                for (int form = 0; form < DOOR_FORMS; form++)
                    if (rows->at[operation][form].calls)
                        work(rows, operation, form, &rows->at[operation][form], state);
}

static void add(const struct door_rows *rows, int operation, int form, const struct door_row *row, void *state)
{
    uint64_t *sums = state;
    (void)rows, (void)operation, (void)form;
    sums[0] += row->calls;
    sums[1] += row->calls - row->below;
}

static void print_row(const struct door_rows *rows, int operation, int form, const struct door_row *row, void *state)
{
    (void)state;
    fprintf(stderr, "castell: %-20.20s %5d %5d  %-22s %-10s %10llu %14llu %10llu %11.6f %11.6f  %s\n", rows->name, rows->size,
            rows->hosts, door_names[operation], forms[form], (unsigned long long)row->calls, (unsigned long long)row->bytes,
            (unsigned long long)(row->calls - row->below), row->seconds, row->below_seconds, row->below ? why_of(row) : "");
}

static void print_table(const uint64_t sums[2])
{
    fprintf(stderr, "castell: %-20s %5s %5s  %-22s %-10s %10s %14s %10s %11s %11s  %s\n", "rank 0's communicator", "ranks",
            "hosts", "operation", "form", "calls", "bytes", "castell", "seconds", "below", "why below");
    each(print_row, NULL);
    double share = sums[0] ? 100.0 * (double)sums[1] / (double)sums[0] : 100.0;
    fprintf(stderr, "castell: collective calls of all ranks: %llu, through castell: %llu (%.1f %%)\n",
            (unsigned long long)sums[0], (unsigned long long)sums[1], share);
    if (door_joined.hosts > 1)
        fprintf(stderr, "castell: the ranks are on %d hosts; between these castell's calls go over %s\n", door_joined.hosts,
                door_joined.net);
    if (*door_joined.why)
        fprintf(stderr, "castell: castell could not join all ranks: %s\n", door_joined.why);
    double seconds;
    int kinds = door_measured(&seconds);
    if (kinds > 0)
        fprintf(stderr, "castell: which is faster here was measured for %d kinds of calls in %.3f s; kept in %s\n", kinds, seconds,
                door_kept_where() ? door_kept_where() : "no file");
}

/* A text as JSON. */
static void quote(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        if ((unsigned char)*text < ' ')
            fprintf(out, "\\u%04x", *text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

struct json {
    FILE *out;
    const struct door_rows *last;
};

static void write_row(const struct door_rows *rows, int operation, int form, const struct door_row *row, void *state)
{
    struct json *json = state;
    if (json->last != rows) {
        fprintf(json->out, "%s    { \"name\": ", json->last ? " ] },\n" : "");
        quote(json->out, rows->name);
        fprintf(json->out, ", \"size\": %d, \"hosts\": %d, \"through\": %s, \"why\": ", rows->size, rows->hosts, rows->why ? "false" : "true");
        quote(json->out, door_whys[rows->why]);
        fprintf(json->out, ", \"operations\": [\n");
    } else {
        fprintf(json->out, ",\n");
    }
    json->last = rows;
    fprintf(json->out,
            "      { \"operation\": \"%s\", \"form\": \"%s\", \"calls\": %llu, \"bytes\": %llu, \"seconds\": %.9f, \"below\": %llu, "
            "\"below_seconds\": %.9f, \"why\": ",
            door_names[operation], forms[form], (unsigned long long)row->calls, (unsigned long long)row->bytes, row->seconds,
            (unsigned long long)row->below, row->below_seconds);
    quote(json->out, row->below ? why_of(row) : "");
    fprintf(json->out, " }");
}

static void write_json(const char *path, const uint64_t sums[2])
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length, size = 0;
    struct json json = {.out = fopen(path, "w")};
    if (!json.out) {
        fprintf(stderr, "castell: CASTELL_MPI_STATS: %s cannot be written; this is the table instead\n", path);
        print_table(sums);
        return;
    }
    below_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = 0;
    below_Comm_size(MPI_COMM_WORLD, &size);
    double seconds;
    int kinds = door_measured(&seconds);
    fprintf(json.out, "{ \"mpi\": ");
    quote(json.out, version);
    fprintf(json.out, ", \"measured\": { \"kinds\": %d, \"seconds\": %.6f, \"file\": ", kinds, seconds);
    quote(json.out, door_kept_where() ? door_kept_where() : "");
    fprintf(json.out, " }, \"hosts\": %d, \"net\": ", door_joined.hosts);
    quote(json.out, door_joined.net);
    fprintf(json.out, ", \"not_joined\": ");
    quote(json.out, door_joined.why);
    fprintf(json.out, ", \"ranks\": %d, \"collective_calls\": %llu, \"through_castell\": %llu,\n  \"communicators\": [\n", size,
            (unsigned long long)sums[0], (unsigned long long)sums[1]);
    each(write_row, &json);
    fprintf(json.out, "%s\n  ] }\n", json.last ? " ] }" : "");
    fclose(json.out);
}

void door_stats_print(void)
{
    if (!door_settings.has_stats)
        return;
    uint64_t mine[2] = {0, 0}, sums[2] = {0, 0};
    int rank;
    each(add, mine);
    below_Comm_rank(MPI_COMM_WORLD, &rank);
    below_Reduce(mine, sums, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank != 0)
        return;
    if (door_settings.stats_file)
        write_json(door_settings.stats_file, sums);
    else
        print_table(sums);
}
