/* Kernels in the form that others bring them in, each with a mistake that it can be asked for. */
#ifndef INLAY_TESTS_NPU_KERNELS_KERNELS_H
#define INLAY_TESTS_NPU_KERNELS_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

void add(int forgets_the_store);
void softmax(int has_alibi, int barrier_in_the_branch_alone);
void matmul(int forgets_the_flag);
void add_in_ascend_c(int forgets_the_queue); /* ascend_c/add.cpp */

#ifdef __cplusplus
}
#endif

#endif
