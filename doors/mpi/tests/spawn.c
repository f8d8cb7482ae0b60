/* spawn.c: spawns N copies of itself and prints, for the parent and each child, the session's mark and the processors that it may use;
 * "refused" where it may not be.
 *
 *   spawn N [multiple]
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The processors that this process may use. In a session, who has to be pinned from outside is so a moment after its start: the
 * program, of one slot, to one processor, its children to others than those that they inherited from it. */
static cpu_set_t processors(const cpu_set_t *inherited)
{
    cpu_set_t set;
    for (int tries = 0; tries < 300; tries++) {
        sched_getaffinity(0, sizeof set, &set);
        if (!getenv("CASTELL_SESSION"))
            break;
        if (inherited ? !CPU_EQUAL(&set, inherited) : CPU_COUNT(&set) == 1)
            break;
        usleep(100000);
    }
    return set;
}

static void describe(const char *who, cpu_set_t set, char *text, size_t room)
{
    const char *mark = getenv("CASTELL_SESSION");
    size_t length = (size_t)snprintf(text, room, "%s %s on", who, mark ? mark : "none");
    for (int cpu = 0; cpu < CPU_SETSIZE && length < room; cpu++)
        if (CPU_ISSET(cpu, &set))
            length += (size_t)snprintf(text + length, room - length, " %d", cpu);
}

int main(int argc, char **argv)
{
    char text[1024];
    MPI_Comm parent, children;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        cpu_set_t parents;
        MPI_Recv(&parents, sizeof parents, MPI_BYTE, 0, 0, parent, MPI_STATUS_IGNORE);
        const char *who = argc > 1 && !strcmp(argv[1], "second") ? "second" : "child";
        describe(who, processors(&parents), text, sizeof text);
        MPI_Send(text, sizeof text, MPI_CHAR, 0, 0, parent);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    int count = atoi(argv[1]), result;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (argc > 2) {
        char *commands[] = {argv[0], argv[0]}, *second[] = {"second", NULL}, **argvs[] = {NULL, second};
        int counts[] = {count - 1, 1};
        MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
        result = MPI_Comm_spawn_multiple(2, commands, argvs, counts, infos, 0, MPI_COMM_WORLD, &children,
                                         MPI_ERRCODES_IGNORE);
    } else {
        result = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                                MPI_ERRCODES_IGNORE);
    }
    if (result != MPI_SUCCESS) {
        printf("refused\n");
        MPI_Finalize();
        return 0;
    }
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    cpu_set_t own = processors(NULL);
    describe("parent", own, text, sizeof text);
    printf("%s\n", text);
    for (int child = 0; rank == 0 && child < count; child++)
        MPI_Send(&own, sizeof own, MPI_BYTE, child, 0, children);
    for (int child = 0; rank == 0 && child < count; child++) {
        MPI_Recv(text, sizeof text, MPI_CHAR, child, 0, children, MPI_STATUS_IGNORE);
        printf("%s\n", text);
    }
    MPI_Comm_disconnect(&children);
    MPI_Finalize();
    return 0;
}
