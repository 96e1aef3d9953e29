// Do a group's lanes meet as support/butterfly.clh takes for granted on this device? The sum and the largest of 0 .. 63.
#include "cl_kernels/support/butterfly.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void probe(global float* y) {
  BUTTERFLY_ROOM;
  const float sum = butterfly_sum((float)LANE, butterfly_room), most = butterfly_max((float)LANE, butterfly_room);
  y[LANE] = 1000 * sum + most;
}
