// What ONNX demands of a node's inputs and attributes, asked before anything is computed: files are not to be believed.
#pragma once

#include "tools/onnx/node.hpp"

namespace inlay::tools {

// corrupt_data: the node is none by ONNX's own text. unsupported: it is, but no operator covers it, for the reason
// given. After ok the functions of onnx_node.hpp may read every input as they do.
Status check_node(const OnnxNode& node);

}  // namespace inlay::tools
