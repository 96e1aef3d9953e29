// y[t,:] = scale * table[ids[t],:]
//
// One group a row of y. An id outside the table is told, and its row is not written.
//
//   T, Y     types of table and y; an i8 table has a scale a row
//   BLOCKS   table is rows of GGUF blocks, of the type `format`; OF_256: of 256 elements
//
// gpu report:
// gpu report, f16: -D BLOCKS=1 -D Y=f16
// gpu report, f16, blocks of 256: -D BLOCKS=1 -D Y=f16 -D OF_256=1
#include "cl_kernels/embedding.clh"
#include "cl_kernels/support/fault.clh"
#include "cl_kernels/support/rows.clh"

#ifndef Y
#define T f32
#define Y f32
#endif

// `wide`: ids are i64.
static inline long id_at(global const void* ids, long i, int wide) {
  return wide ? ((global const long*)ids)[i] : (long)((global const int*)ids)[i];
}

#define FIND_ROW                                                                  \
  const long t = get_group_id(0), id = id_at(ids, args.ids_begin + t, args.wide); \
  if (id < 0 || id >= args.vocab) {                                               \
    if (LANE == 0) report_fault(faults, args.fault, t, id);                       \
    return;                                                                       \
  }                                                                               \
  y += args.y_begin + t * args.y_stride;

#ifndef BLOCKS

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void embedding(
    global const TYPE(T)* table, global const float* row_scale, global const void* ids, global TYPE(Y)* y,
    global int* faults, const EmbeddingArguments args) {
  FIND_ROW
  table += args.table_begin + id * args.table_stride;
  const float scale = row_scale == 0 ? args.scale : row_scale[args.row_scale_begin + id] * args.scale;
#define SCALED(N) STORE(Y, N)(LOAD(T, N)(table, i) * scale, y, i);
  FOR_ROW(i, args.dim, SCALED)
}

#else

#include "cl_kernels/support/ggml_blocks.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void embedding_blocks(
    global const uchar* table, global const void* ids, global TYPE(Y)* y, global int* faults,
    const EmbeddingBlocksArguments args) {
  FIND_ROW
  table += args.table_begin + id * args.table_stride;
  for (long i = (long)LANE * WIDTH; i < args.dim; i += LANES * WIDTH)
    STORE(Y, WIDTH)(block_elements(table, args.format, (ulong)i) * args.scale, y, i);
}

#endif
