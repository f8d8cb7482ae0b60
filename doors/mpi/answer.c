/* answer.c: a call comes in: does castell make it, and how did that end?
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "below.h"
#include "plain.h"

#include <stdio.h>
#include <stdlib.h>

/* The MPI below has to make the call. */
static int goes_below(struct door_arguments *a, struct door_comm *comm, enum door_why why, size_t bytes)
{
    a->bytes = bytes;
    a->size = comm ? comm->size : 0;
    if (door_settings.timeline)
        a->since = door_now();
    if (!door_settings.has_stats)
        return 0;
    struct door_rows *rows = comm ? comm->rows : door_rows_unknown();
    a->row = &rows->at[a->operation][a->form];
    a->why = why;
    a->row->bytes += bytes;
    a->since = door_now();
    return 0;
}

int door_was_below(const struct door_arguments *a, int result)
{
    if (a->row) {
        a->row->calls++;
        a->row->below++;
        a->row->whys[a->why]++;
        a->row->below_seconds += door_now() - a->since;
    }
    if (a->since > 0)
        door_note(a->operation, a->form, 0, a->size, a->bytes, a->since);
    return result;
}

int door_failed(struct door_comm *comm, int code)
{
    const char *text = GOAL_LastError();
    char said[MPI_MAX_ERROR_STRING];
    int error = MPI_ERR_OTHER;
    (void)code;
    snprintf(said, sizeof said, "castell: %s", text);
    if (!below_Add_error_code(MPI_ERR_OTHER, &error))
        below_Add_error_string(error, said);
    fprintf(stderr, "%s\n", said);
    below_Comm_call_errhandler(comm->handle == MPI_COMM_NULL ? MPI_COMM_WORLD : comm->handle, error);
    return error;
}

/* Why castell does not make calls on this communicator. */
static enum door_why against(const struct door_arguments *a, const struct door_comm *comm)
{
    if (door_settings.is_off)
        return DOOR_OFF;
    if (!comm)
        return a->comm == MPI_COMM_NULL ? DOOR_ARGUMENT : DOOR_NOT_AGREED;
    if (comm->why != DOOR_THROUGH)
        return comm->why;
    return door_settings.is_chosen[a->operation] ? DOOR_THROUGH : DOOR_NOT_CHOSEN;
}

/* The calling thread makes the call. */
static int make(struct door_plan *plan, struct door_comm *comm)
{
    int error = door_plan_before(plan);
    if (!error) {
        int code = castell_door_make(&plan->call, comm->castell);
        error = code ? door_failed(comm, code) : door_plan_after(plan);
    }
    door_plan_free(plan);
    return error;
}

/* Prepares the call, and starts it unless it is persistent. `own`: the persistent call's own communicator, or NULL. */
static int start(struct door_plan *plan, const struct door_arguments *a, struct door_comm *comm, castell_comm own,
                 size_t bytes, struct door_row *row, MPI_Request *request)
{
    int is_persistent = a->form == DOOR_PERSISTENT;
    castell_request prepared = NULL;
    int error = is_persistent ? 0 : door_plan_before(plan);
    if (!error) {
        int code = castell_door_prepare(&plan->call, own ? own : comm->castell, is_persistent, &prepared);
        error = code ? door_failed(comm, code) : 0;
    }
    if (error) {
        door_plan_free(plan);
        if (own)
            castell_comm_free(&own);
        return error;
    }
    return door_request_keep(plan, prepared, is_persistent, comm, own, a, bytes, row, request);
}

int door_make(const struct door_arguments *a, struct door_comm *comm, MPI_Request *request)
{
    struct plain plain = {0};
    if (!request && plain_of(&plain, a, comm)) {
        int code = plain_call(&plain, a, comm->castell);
        return code ? door_failed(comm, code) : MPI_SUCCESS;
    }
    struct door_plan plan;
    size_t bytes;
    if (door_plan(&plan, a, comm, &bytes) != DOOR_THROUGH) {
        door_plan_free(&plan);
        return MPI_ERR_OTHER;
    }
    return request ? start(&plan, a, comm, NULL, bytes, NULL, request) : make(&plan, comm);
}

int door_answer(struct door_arguments *a, MPI_Request *request, int *result)
{
    if (!door_is_open)
        return 0;
    struct door_comm *comm = door_comm_of(a->comm, a->form == DOOR_BLOCKING && !door_settings.is_off);
    enum door_why why = against(a, comm);
    if (why != DOOR_THROUGH || (a->form != DOOR_BLOCKING && !request))
        return goes_below(a, comm, why, 0);
    struct door_plan plan;
    size_t bytes;
    why = door_plan(&plan, a, comm, &bytes);
    if (why == DOOR_THROUGH && comm->choices)
        why = door_choose(a, comm, bytes);
    /* Persistent calls may be started in any order: what is one of castell's in order needs a communicator of its own. */
    castell_comm own = NULL;
    if (why == DOOR_THROUGH && a->form == DOOR_PERSISTENT && comm->size > 1 &&
        castell_door_comm(comm->members, comm->size, door_exchange, &a->comm, &own))
        why = DOOR_NO_CONTEXT;
    if (why != DOOR_THROUGH) {
        door_plan_free(&plan);
        return goes_below(a, comm, why, bytes);
    }
    struct door_row *row = door_settings.has_stats ? &comm->rows->at[a->operation][a->form] : NULL;
    double since = row || door_settings.timeline ? door_now() : 0;
    *result = a->form == DOOR_BLOCKING ? make(&plan, comm) : start(&plan, a, comm, own, bytes, row, request);
    if (row) {
        row->calls += a->form != DOOR_PERSISTENT;
        row->bytes += a->form != DOOR_PERSISTENT ? bytes : 0;
        row->seconds += door_now() - since;
    }
    if (a->form == DOOR_BLOCKING && door_settings.timeline)
        door_note(a->operation, a->form, 1, comm->size, bytes, since);
    return 1;
}
