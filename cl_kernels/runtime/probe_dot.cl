// Are dot products of bytes right on this device, the way that is defined? data: 64 bytes u, 4 bytes x, 16 sums.
#ifdef CPU_SHAPE
#include "cl_kernels/linear/dot_cpu.clh"

kernel void probe(global uchar* data) {
  global const char* x = (global const char*)data + 64;
  global uint* y = (global uint*)(data + 68);
  CODE one[4];
  for (int j = 0; j < 4; ++j) one[PLACE(j)] = x[j];
  INPUT input;
  for (int j = 0; j < 4; ++j) ((private CODE*)&input)[j] = one[j];
  vstore16(dot_line(vload16(0, y), line_of(words_of(data)), input), 0, y);
}
#endif
