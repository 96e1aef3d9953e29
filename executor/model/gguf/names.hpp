// Names of tensors in GGUF files that ours are not.
#pragma once

#include <string>
#include <string_view>

#include "executor/model/expert_tensors.hpp"
#include "executor/model/family.hpp"

namespace inlay::exec {

// A layer behind the last, or a norm under another name: what a file's tensor is called here; empty: it is needless.
std::string gguf_tensor_name(std::string_view name, const Family& family, const ModelConfig& config);
// The other way round: what a tensor of ours is called in a file.
std::string name_in_gguf(std::string_view name, const Family& family);

// Whose tensor it is, where it is one of experts:
//
//   blk.0.ffn_gate_exps.weight       {dim, hidden, experts}   also ffn_up, ffn_down
//   blk.0.ffn_gate_up_exps.weight    {dim, 2 hidden, experts}
//   blk.0.ffn_gate.3.weight          {dim, hidden}            as Mixtral's first files have them
bool take_gguf_expert(std::string_view name, ExpertTensors::Place& place);

}  // namespace inlay::exec
