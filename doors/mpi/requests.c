/* requests.c: calls that go on. The program holds a request of the MPI below as a stand-in: of a non-blocking call a generalized
 * request, which is completed when castell's call is over; of a persistent one a persistent receive, which is started then and gets an
 * empty message from this rank itself. (MPICH takes a persistent call to MPI_PROC_NULL for inactive even if it was started.)
 * So the MPI's own functions serve arrays in which both kinds lie, once those of castell's that are waited for are over.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "below.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define BUCKETS 1024

struct door_request {
    MPI_Request handle;
    castell_request castell;
    struct door_plan plan;
    int is_persistent, goes_on; /* it was started and its stand-in knows nothing of its end yet */
    struct door_comm *comm;
    castell_comm own;
    struct door_row *row;
    /* For the timeline. */
    enum door_operation operation;
    size_t bytes;
    double since;
    struct door_request *next;
};

static struct door_request *buckets[BUCKETS];
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
/* How many there are: most programs have none, and every wait looks. */
static int kept;

static struct door_request **place_of(MPI_Request handle)
{
    size_t bits = (size_t)(uintptr_t)handle;
    return &buckets[(bits ^ bits >> 4 ^ bits >> 10 ^ bits >> 20) % BUCKETS];
}

static struct door_request *find(MPI_Request handle)
{
    if (__atomic_load_n(&kept, __ATOMIC_ACQUIRE) == 0 || handle == MPI_REQUEST_NULL)
        return NULL;
    pthread_mutex_lock(&table);
    struct door_request *found = *place_of(handle);
    while (found && found->handle != handle)
        found = found->next;
    pthread_mutex_unlock(&table);
    return found;
}

/* Types and operators that the program has freed while calls were under way, which may use them. */
static struct freed {
    MPI_Datatype type; /* or MPI_DATATYPE_NULL */
    MPI_Op op;
    struct freed *next;
} *freed;

/* Frees them when no call is left. */
static void free_those(void)
{
    pthread_mutex_lock(&table);
    struct freed *list = freed;
    freed = NULL;
    pthread_mutex_unlock(&table);
    while (list) {
        struct freed *one = list;
        list = one->next;
        if (one->type != MPI_DATATYPE_NULL)
            below_Type_free(&one->type);
        else
            below_Op_free(&one->op);
        free(one);
    }
}

static void free_later(MPI_Datatype type, MPI_Op op)
{
    struct freed *one = malloc(sizeof *one);
    if (!one)
        abort();
    pthread_mutex_lock(&table);
    *one = (struct freed){type, op, freed};
    freed = one;
    pthread_mutex_unlock(&table);
}

static void forget(struct door_request *request)
{
    pthread_mutex_lock(&table);
    struct door_request **place = place_of(request->handle);
    while (*place && *place != request)
        place = &(*place)->next;
    if (*place)
        *place = request->next;
    pthread_mutex_unlock(&table);
    if (request->castell)
        castell_request_free(&request->castell);
    if (request->own)
        castell_comm_free(&request->own);
    door_plan_free(&request->plan);
    door_comm_drop(request->comm);
    free(request);
    if (__atomic_sub_fetch(&kept, 1, __ATOMIC_ACQ_REL) == 0)
        free_those();
}

/* Where persistent stand-ins get their messages. */
static MPI_Comm alone = MPI_COMM_NULL;

static MPI_Comm itself(void)
{
    pthread_mutex_lock(&table);
    if (alone == MPI_COMM_NULL)
        below_Comm_dup(MPI_COMM_SELF, &alone);
    pthread_mutex_unlock(&table);
    return alone;
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    below_Status_set_elements(status, MPI_BYTE, 0);
    below_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
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

int door_request_keep(struct door_plan *plan, castell_request castell, int is_persistent, struct door_comm *comm,
                      castell_comm own, const struct door_arguments *arguments, size_t bytes, struct door_row *row, MPI_Request *place)
{
    struct door_request *request = malloc(sizeof *request);
    if (!request)
        abort();
    *request = (struct door_request){.castell = castell, .is_persistent = is_persistent, .goes_on = !is_persistent,
                                     .comm = comm, .own = own, .row = row, .plan = *plan,
                                     .operation = arguments->operation, .bytes = bytes,
                                     .since = door_settings.timeline ? door_now() : 0};
    int error = is_persistent
                    ? below_Recv_init(NULL, 0, MPI_BYTE, 0, 0, itself(), &request->handle)
                    : below_Grequest_start(query, nothing, no_cancel, NULL, &request->handle);
    if (error) {
        castell_request_free(&request->castell);
        if (own)
            castell_comm_free(&own);
        free(request);
        return error;
    }
    door_comm_use(comm);
    *place = request->handle;
    pthread_mutex_lock(&table);
    struct door_request **bucket = place_of(request->handle);
    request->next = *bucket;
    *bucket = request;
    __atomic_add_fetch(&kept, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_unlock(&table);
    return MPI_SUCCESS;
}

/* castell's call is over: what is left of it is done, and the stand-in told. */
static int settle(struct door_request *request, int code)
{
    double since = request->row ? door_now() : 0;
    int error = code < 0 ? door_failed(request->comm, code) : door_plan_after(&request->plan);
    request->goes_on = 0;
    if (request->is_persistent) {
        MPI_Request handle = request->handle;
        below_Start(&handle);
        below_Send(NULL, 0, MPI_BYTE, 0, 0, alone);
    } else {
        below_Grequest_complete(request->handle);
    }
    if (request->row)
        request->row->seconds += door_now() - since;
    if (door_settings.timeline)
        door_note(request->operation, request->is_persistent ? DOOR_PERSISTENT : DOOR_STARTED, 1, request->comm->size,
                  request->bytes, request->since);
    return error;
}

/* Waits for castell's call, if the request is one that goes on. The MPI below goes on meanwhile (door_progress). */
static int finish(struct door_request *request)
{
    if (!request || !request->goes_on)
        return MPI_SUCCESS;
    double since = request->row ? door_now() : 0;
    int code = castell_wait(&request->castell);
    if (request->row)
        request->row->seconds += door_now() - since;
    return settle(request, code);
}

/* Whether castell's call goes on; if it is over, that is settled. */
static int goes_on(struct door_request *request, int *error)
{
    if (!request || !request->goes_on)
        return 0;
    int code = castell_test(&request->castell);
    if (code == 0)
        return 1;
    int failed = settle(request, code);
    *error = *error ? *error : failed;
    return 0;
}

static int any_kept(void)
{
    return __atomic_load_n(&kept, __ATOMIC_ACQUIRE) != 0;
}

#define FEW 16

/* castell's among the requests of an array, to be looked after when the MPI has served the array. */
struct those {
    int count;
    struct door_request **many, *few[FEW];
};

static struct door_request **of(struct those *those)
{
    return those->many ? those->many : those->few;
}

static void look_up(struct those *those, int count, const MPI_Request requests[])
{
    those->count = any_kept() ? count : 0;
    those->many = NULL;
    if (those->count > FEW && !(those->many = malloc(sizeof *those->many * (size_t)count)))
        abort();
    for (int at = 0; at < those->count; at++)
        of(those)[at] = find(requests[at]);
}

/* How many go on. */
static int still(struct those *those, int *error)
{
    int count = 0;
    for (int at = 0; at < those->count; at++)
        count += goes_on(of(those)[at], error);
    return count;
}

/* The MPI has served the array: forgets those that it has freed. */
static void drop(struct those *those, const MPI_Request requests[])
{
    for (int at = 0; at < those->count; at++)
        if (of(those)[at] && requests[at] == MPI_REQUEST_NULL)
            forget(of(those)[at]);
    free(those->many);
}

/* The MPI goes on, and so do the other ranks where they share processors. */
static void pause_between(unsigned *looks)
{
    door_progress();
    if (++*looks > 64)
        sched_yield();
}

/* -------------------------------------------------------------------------------------------------- Waits and tests */

EXPORT int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    struct door_request *ours = find(*request);
    if (!ours)
        return below_Wait(request, status);
    int failed = finish(ours), error = below_Wait(request, status);
    if (*request == MPI_REQUEST_NULL)
        forget(ours);
    return failed ? failed : error;
}
CAUGHT(MPI_Wait);

EXPORT int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    struct door_request *ours = find(*request);
    int failed = MPI_SUCCESS;
    if (goes_on(ours, &failed)) {
        door_progress();
        *flag = 0;
        return MPI_SUCCESS;
    }
    int error = below_Test(request, flag, status);
    if (ours && *request == MPI_REQUEST_NULL)
        forget(ours);
    return failed ? failed : error;
}
CAUGHT(MPI_Test);

EXPORT int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct those ours;
    look_up(&ours, count, requests);
    int failed = MPI_SUCCESS;
    for (int number = 0; number < ours.count; number++) {
        int error = finish(of(&ours)[number]);
        failed = failed ? failed : error;
    }
    int error = below_Waitall(count, requests, statuses);
    drop(&ours, requests);
    return failed ? failed : error;
}
CAUGHT(MPI_Waitall);

EXPORT int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    struct those ours;
    look_up(&ours, count, requests);
    int failed = MPI_SUCCESS, error = MPI_SUCCESS;
    if (still(&ours, &failed)) {
        door_progress();
        *flag = 0;
    } else {
        error = below_Testall(count, requests, flag, statuses);
    }
    drop(&ours, requests);
    return failed ? failed : error;
}
CAUGHT(MPI_Testall);

EXPORT int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    struct those ours;
    look_up(&ours, count, requests);
    int failed = MPI_SUCCESS, left = still(&ours, &failed);
    int error = below_Testany(count, requests, index, flag, status);
    /* To the MPI a persistent request that goes on is one that does not. */
    if (left && *flag && *index == MPI_UNDEFINED)
        *flag = 0;
    drop(&ours, requests);
    return failed ? failed : error;
}
CAUGHT(MPI_Testany);

EXPORT int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    struct those ours;
    look_up(&ours, count, requests);
    int failed = MPI_SUCCESS, error = MPI_SUCCESS, flag = 0, left;
    unsigned looks = 0;
    while ((left = still(&ours, &failed)) > 0 && !failed) {
        error = below_Testany(count, requests, index, &flag, status);
        if (error || (flag && *index != MPI_UNDEFINED))
            break;
        flag = 0;
        pause_between(&looks);
    }
    if (!flag && !error)
        error = below_Waitany(count, requests, index, status);
    drop(&ours, requests);
    return failed ? failed : error;
}
CAUGHT(MPI_Waitany);

EXPORT int MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
    struct those ours;
    look_up(&ours, count, requests);
    int failed = MPI_SUCCESS, left = still(&ours, &failed);
    int error = below_Testsome(count, requests, done, indices, statuses);
    if (left && *done == MPI_UNDEFINED)
        *done = 0;
    drop(&ours, requests);
    return failed ? failed : error;
}
CAUGHT(MPI_Testsome);

EXPORT int MPI_Waitsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
    struct those ours;
    look_up(&ours, count, requests);
    int failed = MPI_SUCCESS, error = MPI_SUCCESS, found = 0;
    unsigned looks = 0;
    while (still(&ours, &failed) > 0 && !failed) {
        error = below_Testsome(count, requests, done, indices, statuses);
        found = error || (*done != MPI_UNDEFINED && *done > 0);
        if (found)
            break;
        pause_between(&looks);
    }
    if (!found)
        error = below_Waitsome(count, requests, done, indices, statuses);
    drop(&ours, requests);
    return failed ? failed : error;
}
CAUGHT(MPI_Waitsome);

EXPORT int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    int failed = MPI_SUCCESS;
    if (goes_on(find(request), &failed)) {
        door_progress();
        *flag = 0;
        return MPI_SUCCESS;
    }
    int error = below_Request_get_status(request, flag, status);
    return failed ? failed : error;
}
CAUGHT(MPI_Request_get_status);

/* ---------------------------------------------------------------------------------------------- Starts and the rest */

static int start(struct door_request *request)
{
    int error = door_plan_before(&request->plan);
    if (error)
        return error;
    int code = castell_request_start(request->castell);
    if (code)
        return door_failed(request->comm, code);
    request->goes_on = 1;
    request->since = door_settings.timeline ? door_now() : 0;
    if (request->row)
        request->row->calls++;
    return MPI_SUCCESS;
}

EXPORT int MPI_Start(MPI_Request *request)
{
    struct door_request *ours = find(*request);
    return ours && ours->is_persistent ? start(ours) : below_Start(request);
}
CAUGHT(MPI_Start);

EXPORT int MPI_Startall(int count, MPI_Request requests[])
{
    if (!any_kept())
        return below_Startall(count, requests);
    int error = MPI_SUCCESS;
    for (int number = 0; number < count && !error; number++)
        error = MPI_Start(&requests[number]);
    return error;
}
CAUGHT(MPI_Startall);

EXPORT int MPI_Request_free(MPI_Request *request)
{
    struct door_request *ours = find(*request);
    int failed = finish(ours), error = below_Request_free(request);
    if (ours)
        forget(ours);
    return failed ? failed : error;
}
CAUGHT(MPI_Request_free);

EXPORT int MPI_Cancel(MPI_Request *request)
{
    /* Collective calls cannot be cancelled. */
    return find(*request) ? MPI_ERR_REQUEST : below_Cancel(request);
}
CAUGHT(MPI_Cancel);

EXPORT int MPI_Type_free(MPI_Datatype *type)
{
    if (!any_kept() || *type == MPI_DATATYPE_NULL)
        return below_Type_free(type);
    free_later(*type, MPI_OP_NULL);
    *type = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}
CAUGHT(MPI_Type_free);

EXPORT int MPI_Op_free(MPI_Op *op)
{
    if (!any_kept() || *op == MPI_OP_NULL)
        return below_Op_free(op);
    free_later(MPI_DATATYPE_NULL, *op);
    *op = MPI_OP_NULL;
    return MPI_SUCCESS;
}
CAUGHT(MPI_Op_free);

void door_requests_stop(void)
{
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        while (buckets[bucket]) {
            struct door_request *request = buckets[bucket];
            finish(request);
            MPI_Request handle = request->handle;
            below_Request_free(&handle);
            forget(request);
        }
    if (alone != MPI_COMM_NULL)
        below_Comm_free(&alone);
}
