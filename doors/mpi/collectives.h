/* The table of collective operations; included as often as somebody needs something of each, with COLLECTIVE defined, and COUNT and
 * DISPLACEMENT as the types of counts and displacements: int and int, or MPI_Count and MPI_Aint.
 *
 * COLLECTIVE(code, name, name of the non-blocking form, (parameters), (their names), fields of struct door_arguments)
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */

COLLECTIVE(BCAST, Bcast, Ibcast,
           (void *buffer, COUNT count, MPI_Datatype type, int root, MPI_Comm comm), (buffer, count, type, root, comm),
           .recv = buffer, .recv_count = count, .recv_type = type, .root = root)

COLLECTIVE(GATHER, Gather, Igather,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *recv, COUNT recv_count,
            MPI_Datatype recv_type, int root, MPI_Comm comm),
           (send, send_count, send_type, recv, recv_count, recv_type, root, comm),
           .send = send, .send_count = send_count, .send_type = send_type, .recv = recv, .recv_count = recv_count,
           .recv_type = recv_type, .root = root)

COLLECTIVE(GATHERV, Gatherv, Igatherv,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *recv, const COUNT recv_counts[],
            const DISPLACEMENT recv_starts[], MPI_Datatype recv_type, int root, MPI_Comm comm),
           (send, send_count, send_type, recv, recv_counts, recv_starts, recv_type, root, comm),
           .send = send, .send_count = send_count, .send_type = send_type, .recv = recv,
           .recv_counts = LIST(recv_counts), .recv_starts = LIST(recv_starts), .recv_type = recv_type, .root = root)

COLLECTIVE(SCATTER, Scatter, Iscatter,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *recv, COUNT recv_count,
            MPI_Datatype recv_type, int root, MPI_Comm comm),
           (send, send_count, send_type, recv, recv_count, recv_type, root, comm),
           .send = send, .send_count = send_count, .send_type = send_type, .recv = recv, .recv_count = recv_count,
           .recv_type = recv_type, .root = root)

COLLECTIVE(SCATTERV, Scatterv, Iscatterv,
           (const void *send, const COUNT send_counts[], const DISPLACEMENT send_starts[], MPI_Datatype send_type,
            void *recv, COUNT recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm),
           (send, send_counts, send_starts, send_type, recv, recv_count, recv_type, root, comm),
           .send = send, .send_counts = LIST(send_counts), .send_starts = LIST(send_starts), .send_type = send_type,
           .recv = recv, .recv_count = recv_count, .recv_type = recv_type, .root = root)

COLLECTIVE(ALLGATHER, Allgather, Iallgather,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *recv, COUNT recv_count,
            MPI_Datatype recv_type, MPI_Comm comm),
           (send, send_count, send_type, recv, recv_count, recv_type, comm),
           .send = send, .send_count = send_count, .send_type = send_type, .recv = recv, .recv_count = recv_count,
           .recv_type = recv_type)

COLLECTIVE(ALLGATHERV, Allgatherv, Iallgatherv,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *recv, const COUNT recv_counts[],
            const DISPLACEMENT recv_starts[], MPI_Datatype recv_type, MPI_Comm comm),
           (send, send_count, send_type, recv, recv_counts, recv_starts, recv_type, comm),
           .send = send, .send_count = send_count, .send_type = send_type, .recv = recv,
           .recv_counts = LIST(recv_counts), .recv_starts = LIST(recv_starts), .recv_type = recv_type)

COLLECTIVE(ALLTOALL, Alltoall, Ialltoall,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *recv, COUNT recv_count,
            MPI_Datatype recv_type, MPI_Comm comm),
           (send, send_count, send_type, recv, recv_count, recv_type, comm),
           .send = send, .send_count = send_count, .send_type = send_type, .recv = recv, .recv_count = recv_count,
           .recv_type = recv_type)

COLLECTIVE(ALLTOALLV, Alltoallv, Ialltoallv,
           (const void *send, const COUNT send_counts[], const DISPLACEMENT send_starts[], MPI_Datatype send_type,
            void *recv, const COUNT recv_counts[], const DISPLACEMENT recv_starts[], MPI_Datatype recv_type,
            MPI_Comm comm),
           (send, send_counts, send_starts, send_type, recv, recv_counts, recv_starts, recv_type, comm),
           .send = send, .send_counts = LIST(send_counts), .send_starts = LIST(send_starts), .send_type = send_type,
           .recv = recv, .recv_counts = LIST(recv_counts), .recv_starts = LIST(recv_starts), .recv_type = recv_type)

COLLECTIVE(ALLTOALLW, Alltoallw, Ialltoallw,
           (const void *send, const COUNT send_counts[], const DISPLACEMENT send_starts[],
            const MPI_Datatype send_types[], void *recv, const COUNT recv_counts[], const DISPLACEMENT recv_starts[],
            const MPI_Datatype recv_types[], MPI_Comm comm),
           (send, send_counts, send_starts, send_types, recv, recv_counts, recv_starts, recv_types, comm),
           .send = send, .send_counts = LIST(send_counts), .send_starts = LIST(send_starts), .send_types = send_types,
           .recv = recv, .recv_counts = LIST(recv_counts), .recv_starts = LIST(recv_starts), .recv_types = recv_types)

COLLECTIVE(REDUCE, Reduce, Ireduce,
           (const void *send, void *recv, COUNT count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
           (send, recv, count, type, op, root, comm),
           .send = send, .recv = recv, .recv_count = count, .recv_type = type, .op = op, .root = root)

COLLECTIVE(ALLREDUCE, Allreduce, Iallreduce,
           (const void *send, void *recv, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (send, recv, count, type, op, comm),
           .send = send, .recv = recv, .recv_count = count, .recv_type = type, .op = op)

COLLECTIVE(REDUCE_SCATTER, Reduce_scatter, Ireduce_scatter,
           (const void *send, void *recv, const COUNT recv_counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (send, recv, recv_counts, type, op, comm),
           .send = send, .recv = recv, .recv_counts = LIST(recv_counts), .recv_type = type, .op = op)

COLLECTIVE(REDUCE_SCATTER_BLOCK, Reduce_scatter_block, Ireduce_scatter_block,
           (const void *send, void *recv, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (send, recv, count, type, op, comm),
           .send = send, .recv = recv, .recv_count = count, .recv_type = type, .op = op)

COLLECTIVE(SCAN, Scan, Iscan,
           (const void *send, void *recv, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (send, recv, count, type, op, comm),
           .send = send, .recv = recv, .recv_count = count, .recv_type = type, .op = op)

COLLECTIVE(EXSCAN, Exscan, Iexscan,
           (const void *send, void *recv, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (send, recv, count, type, op, comm),
           .send = send, .recv = recv, .recv_count = count, .recv_type = type, .op = op)

COLLECTIVE(NEIGHBOR_ALLGATHER, Neighbor_allgather, Ineighbor_allgather,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *recv, COUNT recv_count,
            MPI_Datatype recv_type, MPI_Comm comm),
           (send, send_count, send_type, recv, recv_count, recv_type, comm),
           .send = send, .send_count = send_count, .send_type = send_type, .recv = recv, .recv_count = recv_count,
           .recv_type = recv_type)

COLLECTIVE(NEIGHBOR_ALLGATHERV, Neighbor_allgatherv, Ineighbor_allgatherv,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *recv, const COUNT recv_counts[],
            const DISPLACEMENT recv_starts[], MPI_Datatype recv_type, MPI_Comm comm),
           (send, send_count, send_type, recv, recv_counts, recv_starts, recv_type, comm),
           .send = send, .send_count = send_count, .send_type = send_type, .recv = recv,
           .recv_counts = LIST(recv_counts), .recv_starts = LIST(recv_starts), .recv_type = recv_type)

COLLECTIVE(NEIGHBOR_ALLTOALL, Neighbor_alltoall, Ineighbor_alltoall,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *recv, COUNT recv_count,
            MPI_Datatype recv_type, MPI_Comm comm),
           (send, send_count, send_type, recv, recv_count, recv_type, comm),
           .send = send, .send_count = send_count, .send_type = send_type, .recv = recv, .recv_count = recv_count,
           .recv_type = recv_type)

COLLECTIVE(NEIGHBOR_ALLTOALLV, Neighbor_alltoallv, Ineighbor_alltoallv,
           (const void *send, const COUNT send_counts[], const DISPLACEMENT send_starts[], MPI_Datatype send_type,
            void *recv, const COUNT recv_counts[], const DISPLACEMENT recv_starts[], MPI_Datatype recv_type,
            MPI_Comm comm),
           (send, send_counts, send_starts, send_type, recv, recv_counts, recv_starts, recv_type, comm),
           .send = send, .send_counts = LIST(send_counts), .send_starts = LIST(send_starts), .send_type = send_type,
           .recv = recv, .recv_counts = LIST(recv_counts), .recv_starts = LIST(recv_starts), .recv_type = recv_type)

/* Displacements are addresses in both. */
COLLECTIVE(NEIGHBOR_ALLTOALLW, Neighbor_alltoallw, Ineighbor_alltoallw,
           (const void *send, const COUNT send_counts[], const MPI_Aint send_starts[], const MPI_Datatype send_types[],
            void *recv, const COUNT recv_counts[], const MPI_Aint recv_starts[], const MPI_Datatype recv_types[],
            MPI_Comm comm),
           (send, send_counts, send_starts, send_types, recv, recv_counts, recv_starts, recv_types, comm),
           .send = send, .send_counts = LIST(send_counts), .send_starts = LIST(send_starts), .send_types = send_types,
           .recv = recv, .recv_counts = LIST(recv_counts), .recv_starts = LIST(recv_starts), .recv_types = recv_types)

/* Counts nothing, so it has no second form. */
#ifndef IS_LARGE
COLLECTIVE(BARRIER, Barrier, Ibarrier, (MPI_Comm comm), (comm), .root = 0)
#endif
