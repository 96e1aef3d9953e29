// sum += factor * x, so many times that a launch does not matter. data: 16 factors, 16 x, 16 sums.
#define CHAINS 8
#define ROUNDS 32768

kernel void probe(global float* data) {
  const float16 factor = vload16(0, data), x = vload16(1, data);
  float16 sum[CHAINS];
  for (int i = 0; i < CHAINS; ++i) sum[i] = 0;
  for (int round = 0; round < ROUNDS; ++round)
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) sum[i] = fma(factor, x, sum[i]);
  for (int i = 1; i < CHAINS; ++i) sum[0] += sum[i];
  vstore16(sum[0], 2, data);
}
