/* spawn.c: a program of a session (`castell session run`) that spawns others asks for their slots before, and waits for them as any
 * session does. The processes are a session of their own, that is with the one of the program: each begins as `castell session member`,
 * which becomes the program.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#define _GNU_SOURCE
#include "below.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What `castell session ask` has said: the mark, and a node for each slot. */
struct grant {
    char *mark, **nodes;
    int count;
};

/* What is spawned by one command: as the program says it, and as it is passed on. */
struct spawn {
    const char *command;
    char **argv;
    int processes;
    MPI_Info info;
};

enum { NO_SESSION, GRANTED, REFUSED };

static void *memory(size_t bytes)
{
    void *found = malloc(bytes);
    if (!found) {
        fprintf(stderr, "castell: no memory for %zu bytes\n", bytes);
        abort();
    }
    return found;
}

static char *next_line(FILE *said)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length = getline(&line, &room, said);
    if (length <= 0) {
        free(line);
        return NULL;
    }
    if (line[length - 1] == '\n')
        line[length - 1] = 0;
    return line;
}

/* Asks for slots, and waits for them. Why they are refused castell says on standard error. */
static int ask(int slots, struct grant *grant)
{
    if (!getenv("CASTELL_SESSION") || !getenv("CASTELL_SESSION_PROGRAM"))
        return NO_SESSION;
    char command[80], *line;
    snprintf(command, sizeof command, "\"$CASTELL_SESSION_PROGRAM\" session ask -n %d", slots);
    FILE *said = popen(command, "r");
    if (!said)
        return REFUSED;
    grant->mark = next_line(said);
    grant->nodes = memory((size_t)slots * sizeof *grant->nodes);
    while ((line = next_line(said))) {
        if (grant->count < slots)
            grant->nodes[grant->count++] = line;
        else
            free(line);
    }
    return pclose(said) == 0 && grant->mark && grant->count == slots ? GRANTED : REFUSED;
}

static void forget(struct grant *grant)
{
    for (int at = 0; at < grant->count; at++)
        free(grant->nodes[at]);
    free(grant->nodes);
    free(grant->mark);
}

/* The command and its arguments behind those of castell. */
static char **wrapped(const char *mark, const char *command, char **argv)
{
    size_t count = 0;
    while (argv && argv != MPI_ARGV_NULL && argv[count])
        count++;
    char **whole = memory((count + 6) * sizeof *whole);
    const char *first[] = {"session", "member", mark, "--", command};
    for (size_t at = 0; at < 5; at++)
        whole[at] = (char *)first[at];
    for (size_t at = 0; at < count; at++)
        whole[5 + at] = argv[at];
    whole[5 + count] = NULL;
    return whole;
}

/* The program's wishes and the nodes; the program's own nodes are left to it. */
static MPI_Info placed(MPI_Info info, char **nodes, int count)
{
    MPI_Info with;
    int is_set = 0;
    char value[2];
    if (info == MPI_INFO_NULL)
        below_Info_create(&with);
    else
        below_Info_dup(info, &with);
    below_Info_get(with, "host", 1, value, &is_set);
    if (!getenv("CASTELL_SESSION_HOSTS") || is_set)
        return with;
    size_t length = 1;
    for (int at = 0; at < count; at++)
        length += strlen(nodes[at]) + 1;
    char *list = memory(length), *end = list;
    for (int at = 0; at < count; at++)
        end += sprintf(end, "%s%s", at ? "," : "", nodes[at]);
    below_Info_set(with, "host", list);
    free(list);
    return with;
}

/* Makes of what is to be spawned what is passed on; at the root only. Whether it may be is said to all. */
static int prepare(struct spawn *spawns, int count, int root, MPI_Comm comm, struct grant *grant)
{
    int rank, slots = 0, answer = NO_SESSION, done = 0;
    below_Comm_rank(comm, &rank);
    if (rank == root) {
        for (int at = 0; at < count; at++)
            slots += spawns[at].processes;
        answer = slots > 0 ? ask(slots, grant) : NO_SESSION;
    }
    below_Bcast(&answer, 1, MPI_INT, root, comm);
    for (int at = 0; rank == root && answer == GRANTED && at < count; at++) {
        struct spawn *one = &spawns[at];
        one->info = placed(one->info, grant->nodes + done, one->processes);
        one->argv = wrapped(grant->mark, one->command, one->argv);
        one->command = getenv("CASTELL_SESSION_PROGRAM");
        done += one->processes;
    }
    return answer;
}

static void clean(struct spawn *spawns, int count, struct grant *grant)
{
    for (int at = 0; grant->mark && at < count; at++) {
        free(spawns[at].argv);
        below_Info_free(&spawns[at].info);
    }
    forget(grant);
}

static int refused(MPI_Comm comm, struct grant *grant)
{
    forget(grant);
    below_Comm_call_errhandler(comm, MPI_ERR_SPAWN);
    return MPI_ERR_SPAWN;
}

EXPORT int MPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
                          MPI_Comm *intercomm, int codes[])
{
    struct grant grant = {0};
    struct spawn one = {command, argv, maxprocs, info};
    if (prepare(&one, 1, root, comm, &grant) == REFUSED)
        return refused(comm, &grant);
    int result = below_Comm_spawn(one.command, one.argv, maxprocs, one.info, root, comm, intercomm, codes);
    clean(&one, 1, &grant);
    return result;
}
CAUGHT(MPI_Comm_spawn);

EXPORT int MPI_Comm_spawn_multiple(int count, char *commands[], char **argvs[], const int maxprocs[],
                                   const MPI_Info infos[], int root, MPI_Comm comm, MPI_Comm *intercomm, int codes[])
{
    struct grant grant = {0};
    int rank, at_root;
    below_Comm_rank(comm, &rank);
    at_root = rank == root ? count : 0; /* elsewhere what is to be spawned has no meaning */
    struct spawn *spawns = memory((size_t)(at_root + 1) * sizeof *spawns);
    for (int at = 0; at < at_root; at++)
        spawns[at] = (struct spawn){commands[at], argvs && argvs != MPI_ARGVS_NULL ? argvs[at] : NULL, maxprocs[at], infos[at]};
    int answer = prepare(spawns, at_root, root, comm, &grant), result;
    if (answer == REFUSED) {
        free(spawns);
        return refused(comm, &grant);
    }
    if (answer == NO_SESSION || rank != root) {
        result = below_Comm_spawn_multiple(count, commands, argvs, maxprocs, infos, root, comm, intercomm, codes);
    } else {
        size_t width = (size_t)at_root + 1;
        char **all = memory(width * sizeof *all), ***all_argvs = memory(width * sizeof *all_argvs);
        MPI_Info *all_infos = memory(width * sizeof *all_infos);
        for (int at = 0; at < at_root; at++) {
            all[at] = (char *)spawns[at].command;
            all_argvs[at] = spawns[at].argv;
            all_infos[at] = spawns[at].info;
        }
        result = below_Comm_spawn_multiple(count, all, all_argvs, maxprocs, all_infos, root, comm, intercomm, codes);
        free(all);
        free(all_argvs);
        free(all_infos);
    }
    clean(spawns, at_root, &grant);
    free(spawns);
    return result;
}
CAUGHT(MPI_Comm_spawn_multiple);
