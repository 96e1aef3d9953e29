// y[t,:] = scale * table[ids[t],:]
//
// One group a row of y. An id outside the table is told, and its row is not written.
//
//   T, Y     types of table and y; an i8 table has a scale a row
//   BLOCKS   table is rows of GGUF blocks, of the type `format`
//
// gpu report:
// gpu report, f16: -D BLOCKS=1 -D Y=f16
#include "cl_kernels/support/offence.clh"
#include "cl_kernels/support/rows.clh"

#ifndef Y
#define T f32
#define Y f32
#endif

// `wide`: ids are i64.
static inline long id_at(global const void* ids, long i, int wide) {
  return wide ? ((global const long*)ids)[i] : (long)((global const int*)ids)[i];
}

#define IDS global const void *ids, long ids_begin, int wide, long vocab, global int *record, int place
#define RESULT global TYPE(Y)* y, long y_begin, long y_stride, long dim, float scale
#define FIND_ROW                                                        \
  const long t = get_group_id(0), id = id_at(ids, ids_begin + t, wide); \
  if (id < 0 || id >= vocab) {                                          \
    if (LANE == 0) offend(record, place, t, id);                        \
    return;                                                             \
  }                                                                     \
  y += y_begin + t * y_stride;

#ifndef BLOCKS

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void embedding(
    global const TYPE(T)* table, long table_begin, long table_stride, global const float* row_scale,
    long row_scale_begin, IDS, RESULT) {
  FIND_ROW
  table += table_begin + id * table_stride;
  const float of_row = row_scale == 0 ? 1.0f : row_scale[row_scale_begin + id];
#define SCALED(N) STORE(Y, N)(LOAD(T, N)(table, i) * of_row * scale, y, i);
  FOR_ROW(i, dim, SCALED)
}

#else

#include "cl_kernels/support/ggml_blocks.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void embedding_blocks(
    global const uchar* table, long table_begin, long table_stride, int format, IDS, RESULT) {
  FIND_ROW
  table += table_begin + id * table_stride;
  for (long i = (long)LANE * WIDTH; i < dim; i += LANES * WIDTH)
    STORE(Y, WIDTH)(block_elements(table, format, (ulong)i) * scale, y, i);
}

#endif
