// Everything public except the executor (inlay/exec/) and the kernels as headers (cpu_inline.hpp).
#pragma once

#include <inlay/core/backend.hpp>
#include <inlay/core/check.hpp>
#include <inlay/core/dlpack.hpp>
#include <inlay/core/dtype.hpp>
#include <inlay/core/element.hpp>
#include <inlay/core/parallel.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>
#include <inlay/core/workspace.hpp>
#include <inlay/cpu.hpp>
#include <inlay/ops/dequantize.hpp>
#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_pack.hpp>
#include <inlay/ops/linear_w4a16.hpp>
#include <inlay/ops/paged_attention.hpp>
#include <inlay/ops/quantize.hpp>
#include <inlay/ops/rms_norm.hpp>
