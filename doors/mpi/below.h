/* below.h: the functions of the MPI below, found by the dynamic linker behind the door's own: below_X for PMPI_X.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef BELOW_H
#define BELOW_H

#include "door.h"

/* Those that every MPI has. */
#define BELOW_FUNCTIONS(X) \
    X(Abort) X(Add_error_code) X(Add_error_class) X(Add_error_string) X(Allgather) X(Allreduce) X(Barrier) X(Bcast) X(Cancel) X(Cart_get) X(Cart_shift) X(Cartdim_get) \
    X(Cart_create) X(Cart_sub) X(Comm_call_errhandler) X(Comm_create) X(Comm_create_group) X(Comm_create_keyval) \
    X(Comm_delete_attr) X(Comm_dup) X(Comm_dup_with_info) X(Comm_free) X(Comm_free_keyval) X(Comm_get_attr) X(Comm_get_name) \
    X(Comm_group) X(Comm_rank) X(Comm_set_attr) X(Comm_size) X(Comm_spawn) X(Comm_spawn_multiple) X(Comm_split) X(Comm_split_type) X(Comm_test_inter) \
    X(Dist_graph_create) X(Dist_graph_create_adjacent) X(Dist_graph_neighbors) X(Dist_graph_neighbors_count) X(Finalize) \
    X(Get_library_version) X(Graph_create) X(Graph_neighbors) X(Graph_neighbors_count) X(Grequest_complete) \
    X(Grequest_start) X(Group_free) X(Group_size) X(Group_translate_ranks) X(Info_create) X(Info_dup) X(Info_free) X(Info_get) X(Info_set) X(Init) X(Init_thread) X(Intercomm_merge) \
    X(Op_commutative) X(Op_free) X(Pack) X(Query_thread) X(Reduce) X(Reduce_local) X(Request_free) X(Request_get_status) X(Recv) X(Recv_init) X(Send) \
    X(Start) X(Startall) X(Status_set_cancelled) X(Status_set_elements) X(Test) X(Testall) X(Testany) X(Testsome) \
    X(Topo_test) X(Type_create_keyval) X(Type_delete_attr) X(Type_free) X(Type_free_keyval) X(Type_get_attr) X(Type_get_extent_x) \
    X(Type_get_true_extent_x) X(Type_set_attr) X(Type_size_x) X(Unpack) X(Wait) X(Waitall) X(Waitany) X(Waitsome)

#define DECLARE(name) extern __typeof__(MPI_##name) *below_##name;
BELOW_FUNCTIONS(DECLARE)
#undef DECLARE

/* Finds all functions, or ends the process. */
void door_find_below(void);
/* One of them, which older MPIs may call otherwise. */
void *door_find(const char *name, const char *older);

#endif
