/* timeline.c: each collective call of each rank as an event of the Chrome trace format, which Perfetto shows. A rank keeps a bounded number
 * of events, the first ones, and says how many more there were; in MPI_Finalize rank 0 asks one rank after the other for its own, and
 * writes the file. Ranks of several hosts that castell has joined compare their clocks first and last.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "below.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Events of a rank: 2.5 MB. */
#define EVENTS_MAX 65536

struct event {
    double since, until; /* seconds, by this host's clock; when it is written, from MPI_Init on */
    uint64_t bytes;
    uint32_t thread;
    int size;
    unsigned char operation, form, through;
};

/* What a rank hands over in front of its events. */
struct head {
    uint64_t events, more;
};

/* How much the clock of rank 0's host is ahead of this one's then, and how far off that may be. Seconds. */
struct ahead {
    double at, by, error;
};

static struct event *events;
static uint64_t count;
static struct ahead first;
/* Where the timeline begins, by the clock of rank 0's host. */
static double origin;
static uint32_t threads;
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;

/* All ranks ask. What is not known is nothing: on one host there is one clock. */
static struct ahead ask(void)
{
    double now = 0, error = 0;
    if (door_joined.hosts == 1 || castell_clock_ask(CASTELL_WORLD) || castell_clock_now(&now, &error))
        return (struct ahead){door_now(), 0, 0};
    double here = door_now();
    return (struct ahead){here, now - here, error};
}

/* Ranks of one host have one clock. */
static int all_are_here(void)
{
    MPI_Comm here;
    int size, of_here;
    below_Comm_size(MPI_COMM_WORLD, &size);
    below_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    below_Comm_size(here, &of_here);
    below_Comm_free(&here);
    return of_here == size;
}

void door_timeline_start(void)
{
    if (!door_settings.timeline)
        return;
    events = malloc(sizeof *events * EVENTS_MAX);
    if (!events)
        abort();
    /* All ranks leave this at about the same time. */
    int one = 1;
    below_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    first = ask();
    origin = first.at + first.by;
    /* Where clocks cannot be compared, each one's time starts where all leave this. */
    if (door_joined.hosts > 1 || all_are_here())
        below_Bcast(&origin, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

/* Brings the events to the clock of rank 0's host, which may gain evenly on this one's. The most that they may be off. Seconds. */
static double put_on_one_clock(uint64_t kept)
{
    struct ahead last = ask();
    double gains = last.at > first.at ? (last.by - first.by) / (last.at - first.at) : 0;
    for (uint64_t at = 0; at < kept; at++) {
        double lasts = events[at].until - events[at].since;
        events[at].since += first.by + gains * (events[at].since - first.at) - origin;
        events[at].until = events[at].since + lasts;
    }
    return last.error > first.error ? last.error : first.error;
}

void door_note(enum door_operation operation, enum door_form form, int through, int size, size_t bytes, double since)
{
    static _Thread_local uint32_t thread;
    if (!events)
        return;
    double until = door_now();
    pthread_mutex_lock(&noting);
    if (!thread)
        thread = ++threads;
    if (count++ < EVENTS_MAX)
        events[count - 1] = (struct event){since, until, bytes, thread, size, (unsigned char)operation,
                                           (unsigned char)form, (unsigned char)through};
    pthread_mutex_unlock(&noting);
}

/* Blocking calls are slices of their thread; the others, which may overlap, are spans of their own. */
static void write_event(FILE *out, int rank, uint64_t number, const struct event *event)
{
    static const char *const forms[] = {"", "i", "persistent "};
    const char *name = door_names[event->operation], *form = forms[event->form];
    double since = 1e6 * event->since, lasts = 1e6 * (event->until - event->since);
    const char *way = event->through ? "castell" : "below";
    if (event->form == DOOR_BLOCKING) {
        fprintf(out,
                ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"name\":\"%s\",\"cat\":\"%s\","
                "\"args\":{\"bytes\":%llu,\"ranks\":%d,\"through\":\"%s\"}}",
                rank, event->thread, since, lasts, name, way, (unsigned long long)event->bytes, event->size, way);
        return;
    }
    fprintf(out,
            ",\n{\"ph\":\"b\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"id\":\"%d.%llu\",\"name\":\"%s%s\",\"cat\":\"%s\","
            "\"args\":{\"bytes\":%llu,\"ranks\":%d,\"through\":\"%s\"}}",
            rank, event->thread, since, rank, (unsigned long long)number, form, name, way, (unsigned long long)event->bytes,
            event->size, way);
    fprintf(out, ",\n{\"ph\":\"e\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"id\":\"%d.%llu\",\"name\":\"%s%s\",\"cat\":\"%s\"}", rank,
            event->thread, since + lasts, rank, (unsigned long long)number, form, name, way);
}

static void write_rank(FILE *out, int rank, const struct head *head, const struct event *of)
{
    fprintf(out, "%s{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"rank %d%s\"}}", rank ? ",\n" : "", rank,
            rank, head->more ? " (not all of its calls)" : "");
    for (uint64_t at = 0; at < head->events; at++)
        write_event(out, rank, at, &of[at]);
    if (head->more)
        fprintf(stderr, "castell: the timeline has the first %llu calls of rank %d; %llu more are not in it\n",
                (unsigned long long)head->events, rank, (unsigned long long)head->more);
}

void door_timeline_stop(void)
{
    int rank, size;
    MPI_Comm world;
    if (!events)
        return;
    below_Comm_rank(MPI_COMM_WORLD, &rank);
    below_Comm_size(MPI_COMM_WORLD, &size);
    below_Comm_dup(MPI_COMM_WORLD, &world);
    struct head head = {count < EVENTS_MAX ? count : EVENTS_MAX, count > EVENTS_MAX ? count - EVENTS_MAX : 0};
    double errors[2] = {0, put_on_one_clock(head.events)}; /* two hosts may be off to both sides */
    below_Reduce(&errors[1], &errors[0], 1, MPI_DOUBLE, MPI_MAX, 0, world);
    if (rank == 0 && door_joined.hosts > 1)
        fprintf(stderr, "castell: times of different hosts in the timeline are compared with an error of %.1f us at most\n",
                2e6 * errors[0]);
    if (rank != 0) {
        below_Send(&head, (int)sizeof head, MPI_BYTE, 0, 0, world);
        below_Send(events, (int)(head.events * sizeof *events), MPI_BYTE, 0, 1, world);
    } else {
        FILE *out = fopen(door_settings.timeline, "w");
        if (!out)
            fprintf(stderr, "castell: the timeline cannot be written to %s\n", door_settings.timeline);
        else
            fprintf(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
        for (int of = 0; of < size; of++) {
            if (of > 0) {
                below_Recv(&head, (int)sizeof head, MPI_BYTE, of, 0, world, MPI_STATUS_IGNORE);
                below_Recv(events, (int)(head.events * sizeof *events), MPI_BYTE, of, 1, world, MPI_STATUS_IGNORE);
            }
            if (out)
                write_rank(out, of, &head, events);
        }
        if (out) {
            int is_bad = fprintf(out, "\n]}\n") < 0;
            if (fclose(out) || is_bad)
                fprintf(stderr, "castell: %s: the timeline is not complete: the disk may be full\n", door_settings.timeline);
        }
    }
    below_Comm_free(&world);
    free(events);
    events = NULL;
}
