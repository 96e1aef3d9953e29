// What tests of the batcher and of the prefix cache begin with: a pool of blocks without a model.
#pragma once

#include <gtest/gtest.h>

#include <inlay/exec/block_pool.hpp>

namespace inlay::exec {

inline ::testing::AssertionResult ok(const Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.message();
}

inline BlockPool::Shape blocks(index count, index size = 4) {
  return {.layers = 1, .kv_heads = 1, .head_dim = 1, .block_size = size, .blocks = count};
}

}  // namespace inlay::exec
