// Tensors that hold several matrices of one x, one below another, as Phi-3 and GLM-4 have them.
#pragma once

#include <string>
#include <vector>

#include <inlay/model/model_file.hpp>

namespace inlay::exec {

//   blk.N.attn_qkv     | q: heads * head_dim rows | k: kv_heads * head_dim | v: kv_heads * head_dim |
//   blk.N.ffn_gate_up  | gate: hidden rows | up: hidden rows |
//   blk.N.ffn_up       the same in GGUF, where there is no ffn_gate
//
// Each becomes the parts that for_each_tensor names, which look at the same memory. `origin` names the file in
// messages.
Status split_tensors(const ModelConfig& config, const std::string& origin, std::vector<WeightTensor>& tensors);

}  // namespace inlay::exec
