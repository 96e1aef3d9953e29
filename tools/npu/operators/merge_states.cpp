#include "shapes/merge_states.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::MergeStatesShape> merge_states;
