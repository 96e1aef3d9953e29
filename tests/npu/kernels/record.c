/* Runs one of the kernels and leaves its log: record KERNEL FILE. */
#include <stdio.h>
#include <string.h>

#include "tests/npu/kernels/kernels.h"
#include "tests/npu/kernels/verbs.h"

inlay_npu_log npu_log;

int main(int argc, char **argv) {
  static const char *const mixed[] = {"AIC", "AIV", "AIV"};
  const char *const kernel = argc == 3 ? argv[1] : "";
  const int is_mixed = strncmp(kernel, "matmul", 6) == 0;
  if (argc != 3) return 2;
  if (inlay_npu_open(&npu_log, argv[2], kernel, 1, is_mixed ? mixed : mixed + 1, is_mixed ? 3 : 1) != 0) return 2;
  if (strcmp(kernel, "add") == 0) add(0);
  if (strcmp(kernel, "add_forgets_the_store") == 0) add(1);
  if (strcmp(kernel, "softmax") == 0) softmax(0, 0);
  if (strcmp(kernel, "softmax_with_alibi") == 0) softmax(1, 1);
  if (strcmp(kernel, "softmax_barrier_in_the_branch") == 0) softmax(0, 1);
  if (strcmp(kernel, "matmul") == 0) matmul(0);
  if (strcmp(kernel, "matmul_forgets_the_flag") == 0) matmul(1);
  if (strcmp(kernel, "add_in_ascend_c") == 0) add_in_ascend_c(0);
  if (strcmp(kernel, "add_in_ascend_c_forgets_the_queue") == 0) add_in_ascend_c(1);
  return inlay_npu_close(&npu_log) == 0 ? 0 : 1;
}
