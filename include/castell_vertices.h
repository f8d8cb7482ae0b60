/* castell_vertices.h: tasks as vertices of GOAL graphs, and runs that a task's completion waits for.
 *
 * So a graph may go through messages and tasks alike. Either the graph is in charge: GOAL_Call with castell_vertex_task makes a
 * vertex a task. Or the tasks are: a task starts a run with castell_run_held, and what waits for the task's data waits for
 * the messages.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef CASTELL_VERTICES_H
#define CASTELL_VERTICES_H

#include "castell_tasks.h"
#include "goal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A task for a vertex; has to stay until no run calls it any more. */
typedef struct castell_vertex {
    castell_runtime *runtime;
    void (*body)(void *argument);
    void *argument;
    const char *label; /* or NULL */
} castell_vertex;

/* For GOAL_Call(graph, castell_vertex_task, &vertex): each time the vertex is reached, `body` runs as a task of `runtime`, and the vertex
 * is over when that task and all that it created are done. If one of them fails and nobody below waited for it, the run fails
 * with its error. */
void castell_vertex_task(void *vertex);

/* [task] Starts a run as GOAL_Run does. The task completes, and its successors get its data, only when the run has ended; if that fails,
 * so does the task. The handle may be tested and freed, or ignored. NULL: it was not started; GOAL_LastError() says why. */
GOAL_Handle castell_run_held(GOAL_Schedule schedule);

#ifdef __cplusplus
}
#endif
#endif /* CASTELL_VERTICES_H */
