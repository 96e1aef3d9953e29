// Are dot products of bytes right on this device, the way that is defined? data: 64 bytes u, 4 bytes x, 16 sums.
#if defined(DOT_VNNI) || defined(DOT_MADD)
#include "cl_kernels/linear/dot_per_item.clh"

kernel void probe(global uchar* data) {
  global const char* x = (global const char*)data + 64;
  global uint* y = (global uint*)(data + 68);
  union {
    CODE codes[4];
    WORD words[DOT_PARTS];
  } input;
  for (int j = 0; j < 4; ++j) input.codes[PLACE(j)] = x[j];
  SUM sum = vload16(0, y);
  for (int part = 0; part < DOT_PARTS; ++part) sum = dot_part(sum, buffer_of(words_of(data), part), input.words[part]);
  vstore16(sum, 0, y);
}
#else
#include "cl_kernels/linear/dot_per_group.clh"

// Of signed bytes: u less 128, and 128 sum x back.
kernel void probe(global char* data) {
  global const char* x = data + 64;
  global int* y = (global int*)(data + 68);
  const int input = as_int(vload4(0, x)), all = 128 * (x[0] + x[1] + x[2] + x[3]);
  for (int c = 0; c < 16; ++c)
    y[c] = (int)((uint)dot4(as_int(vload4(c, data)) ^ 0x80808080, input, y[c]) + (uint)all);
}
#endif
