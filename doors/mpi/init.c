/* init.c: from MPI_Init to MPI_Finalize.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#define _GNU_SOURCE
#include "below.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int door_is_open, door_is_quick;
static int thread_level = MPI_THREAD_SINGLE;
/* A request that never completes, by a test of which the MPI below goes on. */
static MPI_Request driven = MPI_REQUEST_NULL;

void door_progress(void)
{
    int flag;
    MPI_Request request = driven;
    if (request != MPI_REQUEST_NULL)
        below_Test(&request, &flag, MPI_STATUS_IGNORE);
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    below_Status_set_elements(status, MPI_BYTE, 0);
    below_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int nothing(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int no_cancel(void *extra, int is_complete)
{
    (void)extra, (void)is_complete;
    return MPI_SUCCESS;
}

/* Says what was found, and which functions the program would call elsewhere. */
static void check(int rank)
{
    static const char *const names[] = {"MPI_Allreduce", "PMPI_Allreduce", "MPI_Wait", "PMPI_Wait", "MPI_Init", "MPI_Comm_dup"};
    Dl_info ours, theirs;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    below_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = 0;
    if (rank != 0)
        return;
    fprintf(stderr, "castell: the MPI below is %s, in %s\n", version,
            dladdr((void *)(uintptr_t)below_Init, &theirs) ? theirs.dli_fname : "a place unknown");
    if (door_joined.among == MPI_COMM_NULL)
        fprintf(stderr, "castell: joined by functions of this MPI: no, so all calls go below%s%s; thread level %d\n",
                *door_joined.why ? ": " : "", door_joined.why, thread_level);
    else
        fprintf(stderr, "castell: joined by functions of this MPI: yes; ranks of this host: %d; hosts: %d%s%s; thread level %d\n",
                door_joined.ranks_here, door_joined.hosts, *door_joined.net ? ", between ranks that share no memory: " : "",
                door_joined.net, thread_level);
    if (door_joined.among != MPI_COMM_NULL && *door_joined.why)
        fprintf(stderr, "castell: castell could not join all ranks: %s\n", door_joined.why);
    dladdr((void *)(uintptr_t)check, &ours);
    for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
        void *bound = dlsym(RTLD_DEFAULT, names[at]);
        if (bound && dladdr(bound, &theirs) && strcmp(theirs.dli_fname, ours.dli_fname))
            fprintf(stderr, "castell: %s is not caught: programs find that of %s\n", names[at], theirs.dli_fname);
    }
}

/* Whether the MPI that was found is one of those that this library was built for: handles differ. */
static int is_family(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING * 2] = "";
    int length, is_ours;
    below_Get_library_version(version, &length);
#ifdef OPEN_MPI
    is_ours = !strncmp(version, "Open MPI", 8);
#else
    is_ours = strncmp(version, "Open MPI", 8) != 0;
#endif
    version[strcspn(version, "\n")] = 0;
    if (!is_ours)
        fprintf(stderr, "castell: this library is for another MPI than %s; all calls go below\n", version);
    return is_ours;
}

static void open_door(void)
{
    int rank;
    if (!is_family())
        return;
    below_Comm_rank(MPI_COMM_WORLD, &rank);
    below_Query_thread(&thread_level);
    door_settings_read(rank == 0);
    below_Grequest_start(query, nothing, no_cancel, NULL, &driven);
    if (!door_settings.is_off)
        door_join();
    if (door_settings.has_check)
        check(rank);
    door_types_start();
    door_comms_start();
    door_timeline_start();
    door_is_open = 1;
    door_is_quick = !door_settings.is_off && !door_settings.has_stats && !door_settings.timeline;
}

EXPORT int MPI_Init(int *count, char ***words)
{
    door_find_below();
    int error = below_Init(count, words);
    if (!error)
        open_door();
    return error;
}
CAUGHT(MPI_Init);

EXPORT int MPI_Init_thread(int *count, char ***words, int required, int *provided)
{
    door_find_below();
    int error = below_Init_thread(count, words, required, provided);
    if (!error)
        open_door();
    return error;
}
CAUGHT(MPI_Init_thread);

static void close_door(void)
{
    if (door_world->choices)
        door_choose_waiting(MPI_COMM_WORLD, door_world);
    door_stats_print();
    door_requests_stop();
    door_timeline_stop();
    /* What is called from here on, by functions that are called when attributes are deleted, goes below. */
    door_is_open = door_is_quick = 0;
    door_comms_stop();
    door_types_stop();
    if (GOAL_IsInitialized() && !GOAL_IsFinalized())
        GOAL_Finalize();
    door_joined_stop();
    MPI_Request last = driven;
    driven = MPI_REQUEST_NULL;
    below_Grequest_complete(last);
    below_Wait(&last, MPI_STATUS_IGNORE);
}

EXPORT int MPI_Finalize(void)
{
    if (door_is_open)
        close_door();
    return below_Finalize();
}
CAUGHT(MPI_Finalize);

/* Without a world nothing goes through castell, but what is caught has to find its way down. */
#if MPI_VERSION >= 4
EXPORT int MPI_Session_init(MPI_Info info, MPI_Errhandler handler, MPI_Session *session)
{
    static __typeof__(MPI_Session_init) *below;
    door_find_below();
    if (!below)
        below = door_find("PMPI_Session_init", NULL);
    return below(info, handler, session);
}
CAUGHT(MPI_Session_init);
#endif
