// What a caller of operators needs: every contract, views, and the CPU and the reference to run them. By themselves:
//
//   inlay/weights/        packing and importing weights, RoPE's frequencies
//   inlay/core/dlpack.hpp views from and to DLPack's tensors
//   inlay/core/staging.hpp    an operator on a backend of another memory space
//   inlay/cpu_inline.hpp  the CPU's kernels as headers
//   inlay/model/ text/ exec/  the executor
#pragma once

#include <inlay/core/backend.hpp>
#include <inlay/core/dtype.hpp>
#include <inlay/core/parallel.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/threads.hpp>
#include <inlay/core/view.hpp>
#include <inlay/core/workspace.hpp>
#include <inlay/cpu.hpp>
#include <inlay/ops/add.hpp>
#include <inlay/ops/dequantize.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/gelu.hpp>
#include <inlay/ops/incre_flash_attention.hpp>
#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/layer_norm.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_w4a16.hpp>
#include <inlay/ops/merge_states.hpp>
#include <inlay/ops/moe_combine.hpp>
#include <inlay/ops/moe_routing.hpp>
#include <inlay/ops/paged_attention.hpp>
#include <inlay/ops/quantize.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/rope.hpp>
#include <inlay/ops/sampling.hpp>
#include <inlay/ops/softmax.hpp>
#include <inlay/ops/swiglu.hpp>
